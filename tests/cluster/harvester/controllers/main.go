// Runs controllers of Harvester, as they are, against a kube-apiserver: controllers --kubeconfig FILE NAME...
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	harvester "github.com/harvester/harvester/pkg/apis/harvesterhci.io/v1beta1"
	"github.com/harvester/harvester/pkg/config"
	"github.com/harvester/harvester/pkg/controller/master/addon"
	"github.com/harvester/harvester/pkg/controller/master/machine"
	"github.com/harvester/harvester/pkg/controller/master/mcmsettings"
	"github.com/harvester/harvester/pkg/controller/master/node"
	"github.com/harvester/harvester/pkg/controller/master/nodedrain"
	"github.com/harvester/harvester/pkg/controller/master/setting"
	"github.com/harvester/harvester/pkg/controller/master/storagenetwork"
	"github.com/harvester/harvester/pkg/controller/master/upgrade"
	"github.com/rancher/lasso/pkg/controller"
	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/rancher/wrangler/v3/pkg/schemes"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	kubevirt "kubevirt.io/api/core/v1"
)

type register func(context.Context, *config.Management, config.Options) error

var controllers = map[string]register{
	"addon":          addon.Register,
	"machine":        machine.ControlPlaneRegister,
	"maintain":       node.MaintainRegister,
	"mcmsettings":    mcmsettings.Register,
	"nodedrain":      nodedrain.Register,
	"promote":        node.PromoteRegister,
	"setting":        setting.Register,
	"storagenetwork": storagenetwork.Register,
	"upgrade":        upgrade.Register,
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	// controller-runtime has defined `kubeconfig` in the common set.
	flags := flag.NewFlagSet("controllers", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the cluster")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	// The clients for Helm's values read it from the environment.
	if err := os.Setenv("KUBECONFIG", *kubeconfig); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rest, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{harvester.AddToScheme, kubevirt.AddToScheme, schemes.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	factory, err := controller.NewSharedControllerFactoryFromConfig(rest, scheme)
	if err != nil {
		return err
	}
	ctx, scaled, err := config.SetupScaled(ctx, rest, &generic.FactoryOptions{SharedControllerFactory: factory})
	if err != nil {
		return err
	}
	for _, name := range flags.Args() {
		register, known := controllers[name]
		if !known {
			return fmt.Errorf("no controller %q", name)
		}
		if err := register(ctx, scaled.Management, config.Options{Namespace: "harvester-system"}); err != nil {
			return err
		}
	}
	// The Addon controller reads this cache, which others of Harvester's controllers fill.
	scaled.Management.BatchFactory.Batch().V1().Job().Cache()
	// The handlers of a kind run one after the other: a test sees by this line that those before it are done with the Node.
	scaled.Management.CoreFactory.Core().V1().Node().OnChange(ctx, "log", func(name string, node *core.Node) (*core.Node, error) {
		if node != nil {
			fmt.Printf("handled Node %s %s\n", name, node.ResourceVersion)
		}
		return node, nil
	})
	if err := scaled.Management.Start(1); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
