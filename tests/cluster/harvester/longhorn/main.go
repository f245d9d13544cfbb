// Runs the admission webhook of Longhorn, with its own validators and mutators, and registers it with a kube-apiserver on the same host:
//
//	longhorn --kubeconfig FILE --certificate FILE --key FILE --ca FILE
//
// The list is that of its webhook/server, which cannot be built here: Longhorn's engine is missing. tests/cluster/build copies the
// packages that name it without their conversions of old objects. The rest of them uses nothing of it but constants (`without`).
package main

import (
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/longhorn/longhorn-manager/datastore"
	versioned "github.com/longhorn/longhorn-manager/k8s/pkg/client/clientset/versioned"
	"github.com/longhorn/longhorn-manager/types"
	"github.com/longhorn/longhorn-manager/util"
	"github.com/longhorn/longhorn-manager/webhook/admission"
	"github.com/longhorn/longhorn-manager/webhook/resources/backingimagedatasource"
	"github.com/longhorn/longhorn-manager/webhook/resources/backingimagemanager"
	"github.com/longhorn/longhorn-manager/webhook/resources/backup"
	"github.com/longhorn/longhorn-manager/webhook/resources/backupbackingimage"
	"github.com/longhorn/longhorn-manager/webhook/resources/backupvolume"
	"github.com/longhorn/longhorn-manager/webhook/resources/engine"
	"github.com/longhorn/longhorn-manager/webhook/resources/instancemanager"
	"github.com/longhorn/longhorn-manager/webhook/resources/orphan"
	"github.com/longhorn/longhorn-manager/webhook/resources/persistentvolumeclaim"
	"github.com/longhorn/longhorn-manager/webhook/resources/recurringjob"
	"github.com/longhorn/longhorn-manager/webhook/resources/replica"
	"github.com/longhorn/longhorn-manager/webhook/resources/setting"
	"github.com/longhorn/longhorn-manager/webhook/resources/sharemanager"
	"github.com/longhorn/longhorn-manager/webhook/resources/snapshot"
	"github.com/longhorn/longhorn-manager/webhook/resources/supportbundle"
	"github.com/longhorn/longhorn-manager/webhook/resources/systembackup"
	"github.com/longhorn/longhorn-manager/webhook/resources/systemrestore"
	"github.com/longhorn/longhorn-manager/webhook/resources/volumeattachment"
	registration "k8s.io/api/admissionregistration/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/kubernetes"

	"windrow.dev/tests/cluster/harvester/longhorn/copied/backingimage"
	"windrow.dev/tests/cluster/harvester/longhorn/copied/backuptarget"
	"windrow.dev/tests/cluster/harvester/longhorn/copied/engineimage"
	"windrow.dev/tests/cluster/harvester/longhorn/copied/node"
	"windrow.dev/tests/cluster/harvester/longhorn/copied/volume"
	"windrow.dev/tests/cluster/harvester/serve"
)

const namespace = "longhorn-system"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	server, err := serve.Parse("longhorn")
	if err != nil {
		return err
	}
	ctx, stop := serve.Context()
	defer stop()
	kubernetes, err := kubernetes.NewForConfig(server.Rest)
	if err != nil {
		return err
	}
	own, err := versioned.NewForConfig(server.Rest)
	if err != nil {
		return err
	}
	definitions, err := extensions.NewForConfig(server.Rest)
	if err != nil {
		return err
	}
	factories := util.NewInformerFactories(namespace, kubernetes, own, 30*time.Second)
	store := datastore.NewDataStore(namespace, own, kubernetes, definitions, factories)
	factories.Start(ctx.Done())
	// It waits until all kinds are served and listed.
	if !store.Sync(ctx.Done()) {
		return fmt.Errorf("the kinds could not be listed")
	}

	validating := serve.NewHook(types.ValidatingWebhookName, "validator.longhorn.io", registration.Fail)
	mutating := serve.NewHook(types.MutatingWebhookName, "mutator.longhorn.io", registration.Fail)
	for _, validator := range validators(store) {
		add(validating, admission.AdmissionTypeValidation, admission.NewValidatorAdapter(validator))
	}
	for _, mutator := range mutators(store) {
		add(mutating, admission.AdmissionTypeMutation, mutator)
	}
	return server.Run(ctx, validating, mutating)
}

// add is what Longhorn's webhook/server does with each of them.
func add(hook *serve.Hook, kind string, admitter admission.Admitter) {
	of := admitter.Resource()
	name := reflect.Indirect(reflect.ValueOf(of.ObjectType)).Type().Name()
	hook.Router.Kind(name).Group(of.APIGroup).Type(of.ObjectType).Handle(admission.NewHandler(admitter, kind))
	hook.Handles(of.APIGroup, of.APIVersion, []string{of.Name}, of.Scope, of.OperationTypes)
}

func validators(store *datastore.DataStore) []admission.Validator {
	return []admission.Validator{
		node.NewValidator(store),
		setting.NewValidator(store),
		recurringjob.NewValidator(store),
		backingimage.NewValidator(store),
		backupbackingimage.NewValidator(store),
		backup.NewValidator(store),
		backupvolume.NewValidator(store),
		backuptarget.NewValidator(store),
		volume.NewValidator(store, "n1"),
		orphan.NewValidator(store),
		snapshot.NewValidator(store),
		supportbundle.NewValidator(store),
		systembackup.NewValidator(store),
		systemrestore.NewValidator(store),
		volumeattachment.NewValidator(store),
		engine.NewValidator(store),
		replica.NewValidator(store),
		instancemanager.NewValidator(store),
		persistentvolumeclaim.NewValidator(store),
		engineimage.NewValidator(store),
	}
}

func mutators(store *datastore.DataStore) []admission.Mutator {
	return []admission.Mutator{
		backup.NewMutator(store),
		backingimage.NewMutator(store),
		backingimagemanager.NewMutator(store),
		backingimagedatasource.NewMutator(store),
		node.NewMutator(store),
		volume.NewMutator(store),
		engine.NewMutator(store),
		recurringjob.NewMutator(store),
		engineimage.NewMutator(store),
		orphan.NewMutator(store),
		sharemanager.NewMutator(store),
		backuptarget.NewMutator(store),
		backupvolume.NewMutator(store),
		snapshot.NewMutator(store),
		replica.NewMutator(store),
		supportbundle.NewMutator(store),
		systembackup.NewMutator(store),
		volumeattachment.NewMutator(store),
		instancemanager.NewMutator(store),
		backupbackingimage.NewMutator(store),
		setting.NewMutator(store),
	}
}
