package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// converted is the CRD whose versions the controller converts.
const converted = "persistentpodstates.apps.kruise.io"

var errNoConversion = errors.New("no CRD with a conversion webhook")

// pointConversion gives the CRD the conversion of deploy/crds, with the service replaced by
// a port of this machine.
func (b *bench) pointConversion(ctx context.Context, port int) error {
	want, err := b.conversion(ctx)
	if err != nil {
		return fmt.Errorf("render deploy/crds: %w", err)
	}
	config, _, _ := unstructured.NestedMap(want, "webhook", "clientConfig")
	path, _, _ := unstructured.NestedString(config, "service", "path")
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return poll(ctx, func(ctx context.Context) error {
		if err := b.Client.Get(ctx, client.ObjectKey{Name: converted}, crd); err != nil {
			return err
		}
		to := map[string]any{"url": fmt.Sprintf("https://localhost:%d%s", port, path)}
		if ca, found, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle"); found {
			to["caBundle"] = ca
		}
		if err := unstructured.SetNestedMap(want, to, "webhook", "clientConfig"); err != nil {
			return err
		}
		if err := unstructured.SetNestedMap(crd.Object, want, "spec", "conversion"); err != nil {
			return err
		}
		return b.Client.Update(ctx, crd)
	})
}

// conversion is what the manifests say of it.
func (b *bench) conversion(ctx context.Context) (map[string]any, error) {
	text, err := exec.CommandContext(ctx, filepath.Join(b.Assets, "kubectl"), "kustomize", filepath.Join(b.Root, "deploy", "crds")).Output()
	if err != nil {
		return nil, err
	}
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return nil, errNoConversion
		}
		if err != nil {
			return nil, err
		}
		if found, ok, err := unstructured.NestedMap(o.Object, "spec", "conversion"); ok && o.GetName() == converted {
			return found, err
		}
	}
}

// askFormer reads in the version that is not stored.
func (b *bench) askFormer(ctx context.Context) error {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "PersistentPodStateList"})
	return b.Client.List(ctx, &list, client.Limit(1))
}
