// Command kinds writes the CustomResourceDefinitions of Harvester, Longhorn, KubeVirt and others, as their published
// modules have them, into a folder: one file PLURAL.GROUP.yaml each.
//
//	kinds FOLDER
//
// Each module is downloaded by the go command, and is refused unless its checksum is the one below.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// A module, and the files in it that hold definitions.
type source struct {
	module, sum string
	files       []string
}

var sources = []source{
	{"github.com/harvester/harvester@v1.8.2", "h1:wU1HUyDI9KswxDrEPtkPvh+s+OhdPADlwiR473lZkHc=", []string{
		"deploy/charts/harvester-crd/templates/*.yaml",
		"deploy/charts/harvester/dependency_charts/cdi/crds/cdi.yaml",
		// Rancher's.
		"tests/integration/controllers/manifest/app-crd.yaml",
		"tests/integration/controllers/manifest/clusterrepos-crd.yaml",
		"tests/integration/controllers/manifest/ranchersettings-crd.yaml",
	}},
	{"github.com/longhorn/longhorn-manager@v1.10.0", "h1:Sod6dxBLu9JD/f2Ff59i6SAAc76/OaNdJab7UOpKRig=", []string{
		"k8s/crds.yaml",
	}},
	{"github.com/k3s-io/helm-controller@v0.17.1", "h1:LjZelVfddI5CWFAI5zlkRVhxobpSLRnNA/R9qU706k0=", []string{
		"pkg/crds/yaml/generated/*.yaml",
	}},
	{"sigs.k8s.io/cluster-api@v1.10.6", "h1:0bnLTpT47R8KIvGZ3tTGek0DwMIc8fZi6IxA3Mlqq4g=", []string{
		"config/crd/bases/cluster.x-k8s.io_clusters.yaml",
		"config/crd/bases/cluster.x-k8s.io_machines.yaml",
	}},
	{"github.com/k8snetworkplumbingwg/network-attachment-definition-client@v1.7.7", "h1:z4P744DR+PIpkjwXSEc6TvN3L6LVzmUquFgmNm8wSUc=", []string{
		"artifacts/networks-crd.yaml",
	}},
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: kinds FOLDER")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(folder string) error {
	for _, source := range sources {
		dir, err := download(source.module, source.sum)
		if err != nil {
			return err
		}
		for _, pattern := range source.files {
			files, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(files) == 0 {
				return fmt.Errorf("%s has no %s", source.module, pattern)
			}
			for _, file := range files {
				if err := split(file, folder); err != nil {
					return err
				}
			}
		}
	}
	dir, err := download(kubevirt, kubevirtSum)
	if err != nil {
		return err
	}
	return writeKubeVirt(dir, folder)
}

// download returns the folder of a module in the go command's cache.
func download(module, sum string) (string, error) {
	// Outside of any module: a go.mod would bring the dependencies of all of them in.
	empty, err := os.MkdirTemp("", "kinds-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(empty)
	command := exec.Command("go", "mod", "download", "-json", module)
	command.Dir = empty
	command.Env = append(os.Environ(), "GO111MODULE=on", "GOWORK=off", "GOFLAGS=")
	command.Stderr = os.Stderr
	output, failed := command.Output()
	var got struct{ Dir, Sum, Error string }
	if err := json.Unmarshal(output, &got); err != nil {
		return "", fmt.Errorf("go mod download %s: %v", module, failed)
	}
	switch {
	case got.Error != "":
		return "", fmt.Errorf("go mod download %s: %s", module, got.Error)
	case got.Sum != sum:
		return "", fmt.Errorf("%s has the checksum %s, and should have %s", module, got.Sum, sum)
	}
	return got.Dir, nil
}

var (
	documents  = regexp.MustCompile(`(?m)^---.*\n`)
	definition = regexp.MustCompile(`(?m)^kind: CustomResourceDefinition$`)
	template   = regexp.MustCompile(`(?m) \{\{.*\}\}$`)
	name       = regexp.MustCompile(`(?m)^  name: "?([a-z0-9.-]+)"?$`)
)

// split writes each definition of a file into a file of its own. Longhorn's have the chart's labels as a template.
func split(file, folder string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, document := range documents.Split(string(text), -1) {
		if !definition.MatchString(document) {
			continue
		}
		found := name.FindStringSubmatch(document)
		if found == nil {
			return fmt.Errorf("%s has a definition without a name", file)
		}
		if err := os.WriteFile(filepath.Join(folder, found[1]+".yaml"), template.ReplaceAll([]byte(document), nil), 0o644); err != nil {
			return err
		}
	}
	return nil
}
