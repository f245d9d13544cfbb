package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestAPlainKeyReplacesAndAPlusKeyAppends(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("config.yaml", "kube-apiserver-arg: [a=1]\nkubelet-arg: [x=1]\n")
	write("config.yaml.d/10.yaml", "kube-apiserver-arg+: [b=2, c=3]\n")
	write("config.yaml.d/20.yml", "kubelet-arg: y=2\n")
	write("config.yaml.d/30.yaml.tmp", "kubelet-arg: never\n")
	merged, err := readSettings(filepath.Join(dir, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got := merged["kube-apiserver-arg"]; !slices.Equal(got, []string{"a=1", "b=2", "c=3"}) {
		t.Errorf("kube-apiserver-arg: %q", got)
	}
	if got := merged["kubelet-arg"]; !slices.Equal(got, []string{"y=2"}) {
		t.Errorf("kubelet-arg: %q", got)
	}
}

func TestAPlainArgumentDropsTheDefaultAndRepeatsStay(t *testing.T) {
	got := arguments(
		map[string]string{"feature-gates": "K=true", "plugins": "N", "keep": "1"},
		[]string{"feature-gates=A=true", "feature-gates=B=true", "plugins+=M", "plugins-=L"},
	)
	want := []string{"--feature-gates=A=true", "--feature-gates=B=true", "--keep=1", "--plugins=L", "--plugins=N", "--plugins=M"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestTheLogOfTheStartBeforeStays(t *testing.T) {
	dir := t.TempDir()
	for range 12 {
		file, err := nextLog(dir)
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"10.log", "11.log"}) {
		t.Errorf("%q", names)
	}
}
