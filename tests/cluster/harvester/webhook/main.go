// Runs validators and mutators of Harvester's webhook, as they are, and registers them with a kube-apiserver on the same host:
//
//	webhook --kubeconfig FILE --certificate FILE --key FILE --ca FILE
//
// The list is that of Harvester's pkg/webhook/server, which cannot be built here: CDI, Longhorn's engine and Rancher's settings are
// missing. So there is no webhook for PersistentVolumeClaims, StorageClasses, images, backups and restores.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	"github.com/harvester/harvester/pkg/webhook"
	"github.com/harvester/harvester/pkg/webhook/clients"
	"github.com/harvester/harvester/pkg/webhook/config"
	"github.com/harvester/harvester/pkg/webhook/indexeres"
	"github.com/harvester/harvester/pkg/webhook/resources/addon"
	"github.com/harvester/harvester/pkg/webhook/resources/bundle"
	"github.com/harvester/harvester/pkg/webhook/resources/bundledeployment"
	"github.com/harvester/harvester/pkg/webhook/resources/deployment"
	"github.com/harvester/harvester/pkg/webhook/resources/keypair"
	"github.com/harvester/harvester/pkg/webhook/resources/managedchart"
	"github.com/harvester/harvester/pkg/webhook/resources/namespace"
	"github.com/harvester/harvester/pkg/webhook/resources/networkattachmentdefinition"
	"github.com/harvester/harvester/pkg/webhook/resources/node"
	"github.com/harvester/harvester/pkg/webhook/resources/pod"
	"github.com/harvester/harvester/pkg/webhook/resources/resourcequota"
	"github.com/harvester/harvester/pkg/webhook/resources/secret"
	"github.com/harvester/harvester/pkg/webhook/resources/setting"
	"github.com/harvester/harvester/pkg/webhook/resources/supportbundle"
	"github.com/harvester/harvester/pkg/webhook/resources/templateversion"
	"github.com/harvester/harvester/pkg/webhook/resources/upgrade"
	"github.com/harvester/harvester/pkg/webhook/resources/version"
	"github.com/harvester/harvester/pkg/webhook/resources/virtualmachine"
	"github.com/harvester/harvester/pkg/webhook/resources/virtualmachineinstance"
	"github.com/harvester/harvester/pkg/webhook/types"
	router "github.com/rancher/wrangler/v3/pkg/webhook"
	admission "k8s.io/api/admissionregistration/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	// controller-runtime has defined `kubeconfig` in the common set.
	flags := flag.NewFlagSet("webhook", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the cluster")
	certificate := flags.String("certificate", "", "its certificate")
	key := flags.String("key", "", "the key of that")
	ca := flags.String("ca", "", "who signed the certificate")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	authority, err := os.ReadFile(*ca)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rest, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	// Without kubeovn's kinds, as an installation without that Addon.
	all, err := clients.New(ctx, rest, 1, false)
	if err != nil {
		return err
	}
	indexeres.RegisterIndexers(all)
	uncached, err := client.New(rest, client.Options{})
	if err != nil {
		return err
	}
	options := &config.Options{
		Namespace:                   "harvester-system",
		HarvesterControllerUsername: "system:serviceaccount:harvester-system:harvester",
		GarbageCollectionUsername:   "system:serviceaccount:kube-system:generic-garbage-collector",
	}
	validating, mutating := router.NewRouter(), router.NewRouter()
	var validated, mutated []admission.RuleWithOperations
	for _, validator := range validators(all, uncached) {
		validated = append(validated, add(validating, types.AdmissionTypeValidation, types.NewValidatorAdapter(validator), options))
	}
	for _, mutator := range mutators(all) {
		mutated = append(mutated, add(mutating, types.AdmissionTypeMutation, mutator, options))
	}
	mux := http.NewServeMux()
	mux.Handle("/validation", validating)
	mux.Handle("/mutation", mutating)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// It waits until all kinds are served and listed.
	if err := all.Start(ctx); err != nil {
		return err
	}
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: time.Minute,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	if err := register(ctx, all, "https://"+listener.Addr().String(), authority, validated, mutated); err != nil {
		return err
	}
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	return err
}

// add is what Harvester's pkg/webhook/server does with each of them.
func add(router *router.Router, kind string, admitter types.Admitter, options *config.Options) admission.RuleWithOperations {
	resource := admitter.Resource()
	name := reflect.Indirect(reflect.ValueOf(resource.ObjectType)).Type().Name()
	router.Kind(name).Group(resource.APIGroup).Type(resource.ObjectType).Handle(types.NewAdmissionHandler(admitter, kind, options))
	return admission.RuleWithOperations{
		Operations: resource.OperationTypes,
		Rule: admission.Rule{
			APIGroups:   []string{resource.APIGroup},
			APIVersions: []string{resource.APIVersion},
			Resources:   resource.Names,
			Scope:       &resource.Scope,
		},
	}
}

// register uses the names and policies of Harvester's pkg/webhook/server, and an address in place of a Service.
func register(ctx context.Context, all *clients.Clients, url string, ca []byte, validated, mutated []admission.RuleWithOperations) error {
	none, fail, ignore := admission.SideEffectClassNone, admission.Fail, admission.Ignore
	versions := []string{"v1", "v1beta1"}
	validation, mutation := url+"/validation", url+"/mutation"
	webhooks := all.K8s.AdmissionregistrationV1()
	_, err := webhooks.ValidatingWebhookConfigurations().Create(ctx, &admission.ValidatingWebhookConfiguration{
		ObjectMeta: meta.ObjectMeta{Name: webhook.ValidatingWebhookName},
		Webhooks: []admission.ValidatingWebhook{{
			Name:                    "validator.harvesterhci.io",
			ClientConfig:            admission.WebhookClientConfig{URL: &validation, CABundle: ca},
			Rules:                   validated,
			FailurePolicy:           &fail,
			SideEffects:             &none,
			AdmissionReviewVersions: versions,
		}},
	}, meta.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = webhooks.MutatingWebhookConfigurations().Create(ctx, &admission.MutatingWebhookConfiguration{
		ObjectMeta: meta.ObjectMeta{Name: webhook.MutatingWebhookName},
		Webhooks: []admission.MutatingWebhook{{
			Name:                    "mutator.harvesterhci.io",
			ClientConfig:            admission.WebhookClientConfig{URL: &mutation, CABundle: ca},
			Rules:                   mutated,
			FailurePolicy:           &ignore,
			SideEffects:             &none,
			AdmissionReviewVersions: versions,
		}},
	}, meta.CreateOptions{})
	return err
}

func validators(all *clients.Clients, uncached client.Client) []types.Validator {
	harvester, machines := all.HarvesterFactory.Harvesterhci().V1beta1(), all.KubevirtFactory.Kubevirt().V1()
	longhorn, network := all.LonghornFactory.Longhorn().V1beta2(), all.HarvesterNetworkFactory.Network().V1beta1()
	rancher, logging := all.RancherManagementFactory.Management().V3(), all.LoggingFactory.Logging().V1beta1()
	provisioning, networks := all.ClusterFactory.Cluster().V1beta1(), all.CNIFactory.K8s().V1().NetworkAttachmentDefinition().Cache()
	quotas, classes := all.HarvesterCoreFactory.Core().V1().ResourceQuota().Cache(), all.StorageFactory.Storage().V1().StorageClass().Cache()
	settings, nodes := harvester.Setting().Cache(), all.Core.Node().Cache()
	return []types.Validator{
		node.NewValidator(nodes, all.Batch.Job().Cache(), machines.VirtualMachineInstance().Cache()),
		keypair.NewValidator(harvester.KeyPair().Cache()),
		virtualmachine.NewValidator(
			all.Core.Namespace().Cache(), all.Core.Pod().Cache(), all.Core.PersistentVolumeClaim().Cache(), quotas,
			harvester.VirtualMachineBackup().Cache(), machines.VirtualMachineInstanceMigration().Cache(), machines.VirtualMachine().Cache(),
			machines.VirtualMachineInstance().Cache(), networks, machines.KubeVirt().Cache(), classes, settings),
		upgrade.NewValidator(
			harvester.Upgrade().Cache(), harvester.Addon().Cache(), nodes, longhorn.Volume().Cache(), provisioning.Cluster().Cache(),
			provisioning.Machine().Cache(), rancher.ManagedChart().Cache(), harvester.Version().Cache(), harvester.VirtualMachineBackup().Cache(),
			harvester.ScheduleVMBackup().Cache(), settings, machines.VirtualMachine().Cache(), machines.VirtualMachineInstance().Cache(),
			all.Core.Endpoints().Cache(), kubelets()),
		setting.NewValidator(
			settings, nodes, harvester.VirtualMachineBackup().Cache(), all.SnapshotFactory.Snapshot().V1().VolumeSnapshotClass().Cache(),
			harvester.VirtualMachineRestore().Cache(), machines.VirtualMachine().Cache(), machines.VirtualMachineInstance().Cache(),
			machines.VirtualMachineInstanceMigration().Cache(), rancher.Feature().Cache(), longhorn.Volume().Cache(),
			all.CoreFactory.Core().V1().PersistentVolumeClaim().Cache(), network.ClusterNetwork().Cache(), network.VlanConfig().Cache(),
			network.VlanStatus().Cache(), longhorn.Node().Cache(), all.Core.Secret().Cache()),
		templateversion.NewValidator(
			harvester.VirtualMachineTemplate().Cache(), harvester.VirtualMachineTemplateVersion().Cache(), harvester.KeyPair().Cache()),
		managedchart.NewValidator(),
		bundle.NewValidator(),
		bundledeployment.NewValidator(all.FleetFactory.Fleet().V1alpha1().Cluster().Cache()),
		namespace.NewValidator(quotas, settings),
		addon.NewValidator(
			harvester.Addon().Cache(), logging.Flow().Cache(), logging.Output().Cache(), logging.ClusterFlow().Cache(), logging.ClusterOutput().Cache(),
			harvester.UpgradeLog().Cache(), nodes, machines.VirtualMachine().Cache(), nil, uncached),
		version.NewValidator(),
		resourcequota.NewValidator(),
		secret.NewValidator(classes),
		supportbundle.NewValidator(all.Core.Namespace().Cache()),
		deployment.NewValidator(harvester.Upgrade().Cache(), all.AppsFactory.Apps().V1().Deployment().Cache()),
		networkattachmentdefinition.NewValidator(settings),
	}
}

// kubelets is the client with which the upgrade's preflight asks them for their disks. There are none in a test.
func kubelets() *http.Client {
	return &http.Client{Timeout: 20 * time.Second}
}

func mutators(all *clients.Clients) []types.Mutator {
	harvester, machines := all.HarvesterFactory.Harvesterhci().V1beta1(), all.KubevirtFactory.Kubevirt().V1()
	settings := harvester.Setting().Cache()
	return []types.Mutator{
		pod.NewMutator(settings),
		templateversion.NewMutator(),
		upgrade.NewMutator(all.CoreFactory.Core().V1().Node().Cache(), settings),
		virtualmachine.NewMutator(settings, all.CNIFactory.K8s().V1().NetworkAttachmentDefinition().Cache(), machines.KubeVirt().Cache(), nil),
		virtualmachineinstance.NewMutator(machines.VirtualMachine().Cache()),
	}
}
