// Installs one of Harvester's charts with Helm's own code, as Fleet does with a ManagedChart: install --kubeconfig FILE NAME DIR [VALUES]
//
// It does not wait until the objects work, as Fleet does not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// Where the ManagedCharts of Harvester's installer install both charts.
const namespace = "harvester-system"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	flags := flag.NewFlagSet("install", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the cluster")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if flags.NArg() < 2 {
		return errors.New("usage: install --kubeconfig FILE NAME DIR [VALUES]")
	}
	chart, err := loader.Load(flags.Arg(1))
	if err != nil {
		return err
	}
	values := chartutil.Values{}
	if flags.NArg() > 2 {
		if values, err = chartutil.ReadValuesFile(flags.Arg(2)); err != nil {
			return err
		}
	}
	getter := genericclioptions.NewConfigFlags(false)
	getter.KubeConfig = kubeconfig
	at := namespace
	getter.Namespace = &at
	// The answers of discovery are not kept: kinds come meanwhile.
	configuration := new(action.Configuration)
	log := func(format string, arguments ...any) { fmt.Printf(format+"\n", arguments...) }
	if err := configuration.Init(getter, namespace, "secret", log); err != nil {
		return err
	}
	install := action.NewInstall(configuration)
	install.ReleaseName, install.Namespace, install.CreateNamespace = flags.Arg(0), namespace, true
	// As `takeOwnership` of a ManagedChart.
	install.TakeOwnership = true
	install.Timeout = 10 * time.Minute
	// kube-apiserver checks the objects. Its whole OpenAPI document takes minutes on a busy machine.
	install.DisableOpenAPIValidation = true
	release, err := install.RunWithContext(context.Background(), chart, values)
	if err != nil {
		return err
	}
	fmt.Printf("installed %s, revision %d\n", release.Name, release.Version)
	return nil
}
