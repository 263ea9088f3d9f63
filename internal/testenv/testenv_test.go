package testenv_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/limpet-io/limpet/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env))
}

func TestCreatePutsStatus(t *testing.T) {
	record := map[string]string{"kubernetes.io/hostname": "n1"}
	o := testenv.APersistentPodState("web").In(env.Namespace(t)).
		Prefers(100, "kubernetes.io/hostname").Recorded("web-0", "n1", record)
	env.Create(t, o.PersistentPodState)
	if diff := cmp.Diff(record, o.Status.PodStates["web-0"].NodeTopologyLabels); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

// The schema alone refuses these, so they stay out when the webhook is away.
func TestSchemaRefuses(t *testing.T) {
	ns := env.Namespace(t)
	cases := map[string]testenv.PersistentPodState{
		"no topology":             testenv.APersistentPodState("a"),
		"a weight of 0":           testenv.APersistentPodState("b").Prefers(0, "k"),
		"a weight of 101":         testenv.APersistentPodState("c").Prefers(101, "k"),
		"a preference of no keys": testenv.APersistentPodState("d").Prefers(1),
		"no keys required":        testenv.APersistentPodState("e").Requires(),
	}
	for name, o := range cases {
		t.Run(name, func(t *testing.T) {
			err := env.Client.Create(t.Context(), o.In(ns).PersistentPodState)
			if !apierrors.IsInvalid(err) {
				t.Errorf("create: %v, want a refusal as invalid", err)
			}
		})
	}
}

func TestTargetIsImmutable(t *testing.T) {
	o := testenv.APersistentPodState("web").In(env.Namespace(t)).Requires("k")
	env.Create(t, o.PersistentPodState)
	o.Spec.TargetReference.Name = "other"
	if err := env.Client.Update(t.Context(), o.PersistentPodState); !apierrors.IsInvalid(err) {
		t.Errorf("update: %v, want a refusal as invalid", err)
	}
}
