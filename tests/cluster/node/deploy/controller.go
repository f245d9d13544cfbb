// Package deploy plays the deploy controller of RKE2 (k3s pkg/deploy) on one folder.
//
// k3s cannot be fetched as a Go module, so the loop around the files is written here from its documented and observed
// behaviour. Everything that reads, applies and prunes is what RKE2 uses itself: the YAML reader of apimachinery,
// wrangler's apply and object sets, the Addon type, and the CRDs. What was seen of the real controller is the measure:
// tests/kubernetes/deploy_controller.rs holds this one to it.
package deploy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	addonv1 "github.com/k3s-io/api/k3s.cattle.io/v1"
	addonclient "github.com/k3s-io/api/pkg/generated/controllers/k3s.cattle.io/v1"
	"github.com/rancher/wrangler/v3/pkg/apply"
	"github.com/rancher/wrangler/v3/pkg/objectset"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/record"
)

const (
	// Poll is the pause between the end of one pass and the start of the next. RKE2 has no knob for it.
	Poll = 15 * time.Second

	appliedKinds = "addon.k3s.cattle.io/gvks"
)

// Controller applies the manifests below one folder, as one RKE2 server would.
type Controller struct {
	folder    string
	apply     apply.Apply
	addons    addonclient.AddonController
	events    record.EventRecorder
	discovery discovery.DiscoveryInterface

	// applied remembers the modification time each path had when it was last applied without an error.
	applied map[string]time.Time
	// served remembers the kinds the server was once seen to have; a kind that was missing is asked for again.
	served map[schema.GroupVersionKind]bool

	// Admitted is asked before each pass how many may have begun; without it there is no end to them. RKE2 has no such knob:
	// a test that changes files between two passes must not depend on how quick it is.
	Admitted func() int
}

// Run makes passes until the context ends. Until one pass was without any error, every file is applied again each time.
func (c *Controller) Run(ctx context.Context) {
	everything := true
	for begun := 0; ; begun++ {
		for c.Admitted != nil && c.Admitted() <= begun {
			select {
			case <-ctx.Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
		log.Printf("pass begins: everything=%v", everything)
		err := c.pass(everything)
		if err != nil {
			log.Printf("Failed to process config: %v", err)
		}
		everything = everything && err != nil
		log.Printf("pass ended: clean=%v", err == nil)
		select {
		case <-ctx.Done():
			return
		case <-time.After(Poll):
		}
	}
}

// pass reads the folder once, names and markers together, and then works through the files in byte order of their paths.
func (c *Controller) pass(everything bool) error {
	found, err := read(c.folder)
	if err != nil {
		return err
	}
	var failed []error
	for _, file := range found.manifests() {
		written := file.info.ModTime()
		if !everything && written.Equal(c.applied[file.path]) {
			continue
		}
		if err := c.applyFile(file.path, everything); err != nil {
			failed = append(failed, fmt.Errorf("failed to process %s: %w", file.path, err))
			continue
		}
		c.applied[file.path] = written
	}
	return errors.Join(failed...)
}

// applyFile brings one file to the cluster. The Addon comes first, since events need an object to hang on; its checksum
// comes last, so that it says "fully applied".
func (c *Controller) applyFile(path string, evenIfKnown bool) error {
	addon, err := c.addon(path)
	if err != nil {
		return err
	}
	fail := func(reason, doing string, err error) error {
		c.events.Eventf(addon, corev1.EventTypeWarning, reason, "%s manifest at %q failed: %v", doing, path, err)
		return err
	}

	// A FIFO blocks here forever, and with it everything else: the real one was seen to do so.
	content, err := os.ReadFile(path)
	if err != nil {
		return fail("ReadManifestFailed", "Read", err)
	}
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	if !evenIfKnown && addon.Spec.Checksum == digest {
		return nil
	}
	declared, err := Parse(content)
	if err != nil {
		return fail("ParseManifestFailed", "Parse", err)
	}
	set := objectset.NewObjectSet(declared...)

	// Kinds of an earlier version of the file are searched too: that is what prunes an object which left the file.
	kinds, err := c.known(append(set.GVKs(), formerKinds(addon)...))
	if err != nil {
		return fail("ValidateManifestFailed", "Validate GVKs for", err)
	}
	c.events.Eventf(addon, corev1.EventTypeNormal, "ApplyingManifest", "Applying manifest at %q", path)
	if err := c.apply.WithOwner(addon).WithGVK(kinds...).Apply(set); err != nil {
		return fail("ApplyManifestFailed", "Applying", err)
	}
	c.events.Eventf(addon, corev1.EventTypeNormal, "AppliedManifest", "Applied manifest at %q", path)

	addon.Spec.Checksum = digest
	if addon.Annotations == nil {
		addon.Annotations = map[string]string{}
	}
	var names []string
	for _, kind := range set.GVKs() {
		names = append(names, kind.String())
	}
	addon.Annotations[appliedKinds] = strings.Join(names, ";")
	_, err = c.addons.Update(addon)
	return err
}

// addon finds or creates the Addon of a file: its name ends at the first dot, so files can share one.
func (c *Controller) addon(path string) (*addonv1.Addon, error) {
	name := addonName(path)
	known, err := c.addons.Cache().Get(metav1.NamespaceSystem, name)
	switch {
	case apierrors.IsNotFound(err):
		return c.addons.Create(addonv1.NewAddon(metav1.NamespaceSystem, name, addonv1.Addon{
			Spec: addonv1.AddonSpec{Source: path},
		}))
	case err != nil:
		return nil, err
	}
	mine := known.DeepCopy()
	mine.Spec.Source = path
	return mine, nil
}

// known leaves out the kinds that the server does not have: they can neither be applied nor searched for leftovers.
// Applying finds the missing ones by itself and names them in its error.
func (c *Controller) known(kinds []schema.GroupVersionKind) ([]schema.GroupVersionKind, error) {
	var there []schema.GroupVersionKind
	for _, kind := range kinds {
		if !c.served[kind] {
			list, err := c.discovery.ServerResourcesForGroupVersion(kind.GroupVersion().String())
			if apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				return nil, err
			}
			for _, resource := range list.APIResources {
				if resource.Group == "" && resource.Version == "" {
					c.served[kind.GroupVersion().WithKind(resource.Kind)] = true
				}
			}
		}
		if c.served[kind] {
			there = append(there, kind)
		}
	}
	return there, nil
}

// formerKinds reads back what the last full application left on the Addon.
func formerKinds(addon *addonv1.Addon) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, text := range strings.Split(addon.Annotations[appliedKinds], ";") {
		version, kind, ok := strings.Cut(text, ", Kind=")
		if !ok {
			continue
		}
		group, version, _ := strings.Cut(version, "/")
		kinds = append(kinds, schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	}
	return kinds
}

// Parse turns a file into objects. One bad document refuses the whole file; a list is opened once, not deeper.
func Parse(content []byte) ([]runtime.Object, error) {
	var objects []runtime.Object
	documents := yaml.NewYAMLReader(bufio.NewReaderSize(bytes.NewReader(content), 4096))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if blank(document) {
			continue
		}
		asJSON, err := yaml.ToJSON(document)
		if err != nil {
			return nil, err
		}
		object, _, err := unstructured.UnstructuredJSONScheme.Decode(asJSON, nil, nil)
		if err != nil {
			return nil, err
		}
		list, ok := object.(*unstructured.UnstructuredList)
		if !ok {
			objects = append(objects, object)
			continue
		}
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	}
}

// blank tells whether a document holds nothing but white space, comments and separators.
func blank(document []byte) bool {
	for line := range bytes.Lines(document) {
		text := bytes.TrimSpace(line)
		if len(text) > 0 && !bytes.HasPrefix(text, []byte("#")) && !bytes.Equal(text, []byte("---")) {
			return false
		}
	}
	return true
}
