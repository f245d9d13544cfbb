// Command ssa applies the manifests of a folder as Flux does: server-side, in stages, each waited for.
//
//	ssa [-drop-nulls] KUBECONFIG FOLDER
//
// It is what benches/compare/run compares RKE2 and Windrow with. It says on standard output, as one line of JSON, how long that took and how much was applied. Its parts are Flux's own
// (github.com/fluxcd/pkg/ssa, with the defaults of kustomize-controller); what is not here is what Flux does before: fetching the
// source and building it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// How many objects kustomize-controller looks at in parallel (its flag --concurrent-ssa).
const concurrency = 4

// Outcome is what is said of a run.
type Outcome struct {
	// Seconds that ApplyAllStaged took.
	Seconds float64 `json:"seconds"`
	// Applied is how many objects were applied.
	Applied int `json:"applied"`
	// Error is why it stopped; empty when it did not.
	Error string `json:"error"`
}

func main() {
	dropNulls := flag.Bool("drop-nulls", false, "leave out fields whose value is null")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("usage: ssa [-drop-nulls] KUBECONFIG FOLDER")
	}
	outcome, err := run(context.Background(), flag.Arg(0), flag.Arg(1), *dropNulls)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(outcome); err != nil {
		log.Fatal(err)
	}
	if outcome.Error != "" {
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, folder string, dropNulls bool) (*Outcome, error) {
	objects, err := read(folder)
	if err != nil {
		return nil, err
	}
	if dropNulls {
		for _, object := range objects {
			withoutNulls(object.Object)
		}
	}
	if err := normalize.UnstructuredList(objects); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	// The same pace as the deploy controller's, which the driver compares it with.
	config.QPS, config.Burst = 200, 400
	config.UserAgent = "ssa"
	manager, err := newManager(config)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	changes, err := manager.ApplyAllStaged(ctx, objects, ssa.DefaultApplyOptions())
	outcome := &Outcome{Seconds: time.Since(began).Seconds(), Applied: len(changes.Entries)}
	if err != nil {
		outcome.Error = err.Error()
	}
	return outcome, nil
}

func newManager(config *rest.Config) (*ssa.ResourceManager, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return nil, err
	}
	kube, err := client.New(config, client.Options{HTTPClient: httpClient, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	poller := polling.NewStatusPoller(kube, mapper, polling.Options{})
	manager := ssa.NewResourceManager(kube, poller, ssa.Owner{Field: "compare", Group: "compare.windrow.dev"})
	manager.SetConcurrency(concurrency)
	return manager, nil
}

// read reads every manifest below a folder, in byte order of the paths.
func read(folder string) ([]*unstructured.Unstructured, error) {
	var paths []string
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && (filepath.Ext(path) == ".yaml" || filepath.Ext(path) == ".yml") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	sort.Strings(paths)
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		of, err := utils.ReadObjects(bytes.NewReader(content))
		if err != nil {
			return nil, err
		}
		objects = append(objects, of...)
	}
	return objects, nil
}

// withoutNulls leaves out what a manifest sets to null. ApplyAllStaged asks the API server first what would come of an object, and that
// refuses a null where the definition does not allow one; RKE2 creates the object without asking, and the null is dropped.
func withoutNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if inner == nil {
				delete(value, key)
				continue
			}
			withoutNulls(inner)
		}
	case []any:
		for _, inner := range value {
			withoutNulls(inner)
		}
	}
}
