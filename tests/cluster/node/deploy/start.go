package deploy

import (
	"context"
	"os"
	"time"

	"github.com/k3s-io/api/pkg/crds"
	addons "github.com/k3s-io/api/pkg/generated/controllers/k3s.cattle.io"
	helmcrds "github.com/k3s-io/helm-controller/pkg/crds"
	"github.com/rancher/wrangler/v3/pkg/apply"
	"github.com/rancher/wrangler/v3/pkg/crd"
	"github.com/rancher/wrangler/v3/pkg/schemes"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	eventclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
)

// RegisterCRDs creates the kinds that RKE2 registers before it deploys anything (Addon and snapshots, HelmChart and
// HelmChartConfig; for the latter the definitions only, nothing acts on them here) and waits until they are served.
func RegisterCRDs(ctx context.Context, config *rest.Config) error {
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		return err
	}
	own, err := crds.List()
	if err != nil {
		return err
	}
	helm, err := helmcrds.List()
	if err != nil {
		return err
	}
	// Several controllers may start at once on one cluster: the loser of a race tries again, for about ten seconds at most.
	patience := wait.Backoff{Steps: 10, Duration: 100 * time.Millisecond, Factor: 1.5, Jitter: 0.5}
	lost := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	return retry.OnError(patience, lost, func() error {
		return crd.BatchCreateCRDs(ctx, client.CustomResourceDefinitions(), labels.Everything(), time.Minute, append(own, helm...))
	})
}

// New prepares the controller for a folder and waits until its view of the Addons is complete.
func New(ctx context.Context, config *rest.Config, folder string) (*Controller, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory, err := addons.NewFactoryFromConfig(config)
	if err != nil {
		return nil, err
	}
	controller := factory.K3s().V1().Addon()
	controller.Cache()
	if err := factory.Start(ctx, 1); err != nil {
		return nil, err
	}

	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&eventclient.EventSinkImpl{Interface: client.CoreV1().Events(metav1.NamespaceSystem)})
	source := corev1.EventSource{Component: "deploy", Host: os.Getenv("NODE_NAME")}

	return &Controller{
		folder:    folder,
		apply:     apply.New(client.Discovery(), apply.NewClientFactory(config)).WithDynamicLookup(),
		addons:    controller,
		events:    broadcaster.NewRecorder(schemes.All, source),
		discovery: client.Discovery(),
		applied:   map[string]time.Time{},
		served:    map[schema.GroupVersionKind]bool{},
	}, nil
}
