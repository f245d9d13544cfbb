// Command rke2-standin stands in for `rke2 server` where a test wants a node's systemd unit, files and API server, but no
// containers: it starts etcd and the real kube-apiserver as children, with the arguments that config.yaml and
// config.yaml.d ask for, and then runs the deploy controller. Reading the configuration is written here after RKE2's
// rules (k3s cannot be fetched as a module); what the API server says to the arguments is real.
//
// Different from RKE2: no kubelet, so no static pods. A kube-apiserver that ends takes the stand-in with it, exit code 1,
// where RKE2 would wait 15 minutes for it. The Node object is written once and its Ready condition is not kept up.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"windrow.dev/tests/cluster/node/deploy"
)

// The children's death signal hangs on the thread that started them: that must be the one which lives as long as the process.
func init() { runtime.LockOSThread() }

func main() {
	log.SetFlags(0)
	self, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	name, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}
	n := node{}
	flag.StringVar(&n.binaries, "binaries", or("RKE2_STANDIN_BINARIES", filepath.Dir(self)), "directory of kube-apiserver and, if not in PATH, etcd")
	flag.StringVar(&n.root, "root", or("RKE2_STANDIN_ROOT", "/"), "directory taken for /")
	flag.StringVar(&n.name, "node-name", or("RKE2_STANDIN_NODE_NAME", name), "name of the node")
	flag.StringVar(&n.port, "port", or("RKE2_STANDIN_PORT", "6443"), "port of kube-apiserver on 127.0.0.1")
	flag.StringVar(&n.etcdPort, "etcd-port", or("RKE2_STANDIN_ETCD_PORT", "2379"), "port of etcd on 127.0.0.1")
	flag.BoolVar(&n.activeEarly, "active-early", os.Getenv("RKE2_STANDIN_ACTIVE_EARLY") != "", "tell systemd READY=1 at once, as RKE2 does when log: is configured")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := n.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		log.Printf("level=fatal msg=%q", err)
		os.Exit(1)
	}
}

func or(variable, otherwise string) string {
	if value := os.Getenv(variable); value != "" {
		return value
	}
	return otherwise
}

// run is the life of the node: it returns when a child ends or the context does.
func (n *node) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if n.activeEarly {
		notify("READY=1")
	}
	configured, err := readSettings(n.at("etc/rancher/rke2/config.yaml"))
	if err != nil {
		return err
	}
	keys, err := openPKI(n.at("var/lib/rancher/rke2/server/tls"), n.name)
	if err != nil {
		return err
	}
	server := "https://127.0.0.1:" + n.port
	admin := n.at("etc/rancher/rke2/rke2.yaml")
	// As in RKE2, the credential is there long before anything answers to it.
	if err := keys.kubeconfig(admin, server, keys.admin); err != nil {
		return err
	}
	if err := keys.kubeconfig(n.at("var/lib/rancher/rke2/agent/kubelet.kubeconfig"), server, keys.node); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", admin)
	if err != nil {
		return err
	}

	children, err := n.startChildren(end, keys, configured["kube-apiserver-arg"])
	defer children.stop()
	if err != nil {
		return err
	}
	if err := ready(ctx, config); err != nil {
		return causeOf(ctx, err)
	}
	log.Print(`level=info msg="Kube API server is now running"`)
	if err := n.register(ctx, config); err != nil {
		return causeOf(ctx, err)
	}
	if !n.activeEarly {
		notify("READY=1")
	}
	if err := deploy.RegisterCRDs(ctx, config); err != nil {
		return causeOf(ctx, err)
	}
	manifests := n.at("var/lib/rancher/rke2/server/manifests")
	if err := os.MkdirAll(manifests, 0o700); err != nil {
		return err
	}
	controller, err := deploy.New(ctx, config, manifests)
	if err != nil {
		return causeOf(ctx, err)
	}
	// A FIFO can block a pass forever, as it does in RKE2; the node must still end on a signal.
	go controller.Run(ctx)
	<-ctx.Done()
	return context.Cause(ctx)
}

// causeOf prefers the reason why everything ends over the error that followed from it.
func causeOf(ctx context.Context, err error) error {
	// A child that died is noticed within moments of the request it broke.
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Second):
		return err
	}
}
