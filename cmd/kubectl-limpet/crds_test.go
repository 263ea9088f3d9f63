package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/testenv"
)

// TestACRDThatGoesWhileACommandRunsIsNamed deletes one CRD after the other under a command that has read all kinds before.
// The kind of the NodeNetwork is missed where deploy/node-network is applied, and not elsewhere.
func TestACRDThatGoesWhileACommandRunsIsNamed(t *testing.T) {
	env.Since(t, 31, "CEL functions for networks")
	testenv.Beside(t, &env)
	c := commands{config: genericclioptions.NewConfigFlags(true)}
	reader := facts.Reader{Client: env.Client, Now: time.Now}
	missing := func(want ...string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			r, err := c.look(t.Context(), reader)
			if err != nil {
				return err
			}
			var got []string
			for _, p := range r.Problems {
				if p.Reason == "NotServed" {
					got = append(got, string(p.Severity)+" "+p.Object)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("-want +got:\n%s", diff)
			}
			return nil
		})
	}
	missing()
	gone := []string{}
	for _, kind := range []string{
		"persistentpodstates.apps.kruise.io", "workloadspreads.apps.kruise.io", "podunavailablebudgets.policy.kruise.io",
		"ipreservations.limpet.dev", "nodeippools.limpet.dev", "disruptionbooks.limpet.dev", "borrowedaddresses.limpet.dev", facts.NodeNetworks,
		"distributedpoddisruptionbudgets.limpet.dev",
	} {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: kind}}
		if err := env.Client.Delete(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
		if kind != facts.NodeNetworks {
			gone = append(gone, "Broken CustomResourceDefinition "+kind)
			slices.Sort(gone)
		}
		missing(gone...)
	}
	for _, o := range env.Manifest(t, "deploy/node-network/rbac.yaml") {
		if strings.HasSuffix(o.GetName(), "-node-network") && o.GetObjectKind().GroupVersionKind().Kind == "ClusterRole" {
			env.Create(t, o)
		}
	}
	gone = append(gone, "Broken CustomResourceDefinition "+facts.NodeNetworks)
	slices.Sort(gone)
	missing(gone...)
}
