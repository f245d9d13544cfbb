// Package serve is what the webhooks of this module have in common: their flags, an address on this host in place of a Service, and
// their registration with a kube-apiserver.
package serve

import (
	"context"
	"crypto/tls"
	"flag"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	router "github.com/rancher/wrangler/v3/pkg/webhook"
	admission "k8s.io/api/admissionregistration/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Hook is a half of a webhook: what validates, or what mutates.
type Hook struct {
	// Configuration is the name of the object that registers it, Name its own name in there.
	Configuration, Name string
	Router              *router.Router
	Rules               []admission.RuleWithOperations
	Failure             admission.FailurePolicyType
}

// NewHook is a half that handles nothing yet.
func NewHook(configuration, name string, failure admission.FailurePolicyType) *Hook {
	return &Hook{Configuration: configuration, Name: name, Router: router.NewRouter(), Failure: failure}
}

// Handles adds resources of one group.
func (h *Hook) Handles(group, version string, resources []string, scope admission.ScopeType, operations []admission.OperationType) {
	h.Rules = append(h.Rules, admission.RuleWithOperations{
		Operations: operations,
		Rule: admission.Rule{
			APIGroups:   []string{group},
			APIVersions: []string{version},
			Resources:   resources,
			Scope:       &scope,
		},
	})
}

// Server is the program's cluster and its certificate.
type Server struct {
	Rest      *rest.Config
	authority []byte
	pair      tls.Certificate
}

// Parse reads the flags of the program with this name.
func Parse(name string) (*Server, error) {
	// controller-runtime has defined `kubeconfig` in the common set.
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the cluster")
	certificate := flags.String("certificate", "", "its certificate")
	key := flags.String("key", "", "the key of that")
	ca := flags.String("ca", "", "who signed the certificate")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(*ca)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		return nil, err
	}
	rest, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	return &Server{Rest: rest, authority: authority, pair: pair}, err
}

// Context ends when the program shall end.
func Context() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
}

// Run serves both halves and registers them, until the context ends. What they look up must be listed by now.
func (s *Server) Run(ctx context.Context, validating, mutating *Hook) error {
	mux := http.NewServeMux()
	mux.Handle("/validation", validating.Router)
	mux.Handle("/mutation", mutating.Router)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: time.Minute,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{s.pair}, MinVersion: tls.VersionTLS12},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	if err := s.register(ctx, "https://"+listener.Addr().String(), validating, mutating); err != nil {
		return err
	}
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	return err
}

// register uses an address in place of a Service. The mutating half comes last.
func (s *Server) register(ctx context.Context, url string, validating, mutating *Hook) error {
	none, versions := admission.SideEffectClassNone, []string{"v1"}
	validation, mutation := url+"/validation", url+"/mutation"
	client, err := kubernetes.NewForConfig(s.Rest)
	if err != nil {
		return err
	}
	webhooks := client.AdmissionregistrationV1()
	_, err = webhooks.ValidatingWebhookConfigurations().Create(ctx, &admission.ValidatingWebhookConfiguration{
		ObjectMeta: meta.ObjectMeta{Name: validating.Configuration},
		Webhooks: []admission.ValidatingWebhook{{
			Name:                    validating.Name,
			ClientConfig:            admission.WebhookClientConfig{URL: &validation, CABundle: s.authority},
			Rules:                   validating.Rules,
			FailurePolicy:           &validating.Failure,
			SideEffects:             &none,
			AdmissionReviewVersions: versions,
		}},
	}, meta.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = webhooks.MutatingWebhookConfigurations().Create(ctx, &admission.MutatingWebhookConfiguration{
		ObjectMeta: meta.ObjectMeta{Name: mutating.Configuration},
		Webhooks: []admission.MutatingWebhook{{
			Name:                    mutating.Name,
			ClientConfig:            admission.WebhookClientConfig{URL: &mutation, CABundle: s.authority},
			Rules:                   mutating.Rules,
			FailurePolicy:           &mutating.Failure,
			SideEffects:             &none,
			AdmissionReviewVersions: versions,
		}},
	}, meta.CreateOptions{})
	return err
}
