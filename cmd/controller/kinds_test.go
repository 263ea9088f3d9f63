package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/workloads"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/controller/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var (
	gameServers  = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "GameServerSet"}
	kruiseSets   = schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "StatefulSet"}
	nativeSets   = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}
	kindsConfig  = client.ObjectKey{Namespace: "limpet-system", Name: workloads.KindsConfigMap}
	replicasPath = map[schema.GroupVersionKind]string{gameServers: "size", kruiseSets: "replicas"}
)

// customs has kinds that nobody knew when the controller started named, served, misnamed
// and taken away again, and sees their pods return.
func customs(t *testing.T) {
	ns := env.Namespace(t)
	native := testenv.AStatefulSet("late", 1).StartingAt(5).In(ns).StatefulSet
	env.Create(t, native, asking(ns, "late", nativeSets))
	returns(t, native, nativeSets, "late-5")

	game := asking(ns, "game", gameServers)
	if err := env.Client.Create(t.Context(), game); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.targetRef.kind") {
		t.Fatalf("create for a kind that is not named: %v, want a refusal that names the field", err)
	}
	exemplify(t)
	game.ResourceVersion = ""
	env.Create(t, game, asking(ns, "db", kruiseSets)) // at once, whether the controller has seen it yet or not
	conditioned(t, game, appsv1beta1.ReasonTargetUnread, "not served")

	crd := crdOf(gameServers)
	env.Create(t, crd, crdOf(kruiseSets))
	conditioned(t, game, appsv1beta1.ReasonTargetUnread, "forbidden")
	told(t, "forbidden")
	aggregate(t)
	servers := aWorkload(t, gameServers, ns, "game", map[string]any{"size": int64(1)})
	db := aWorkload(t, kruiseSets, ns, "db", map[string]any{"replicas": int64(2), "reserveOrdinals": []any{"1-3"}})
	returns(t, servers, gameServers, "game-0")
	returns(t, db, kruiseSets, "db-4")
	hold(t, testenv.APod("early-0").In(ns).On("n1").At("10.0.1.9").Pod, time.Now())
	aWorkload(t, gameServers, ns, "annotated", nil)
	generatedFor(t, client.ObjectKey{Namespace: ns, Name: "annotated"})
	blocking := asking(ns, "blocked", gameServers)
	env.Create(t, blocking)
	givesWay(t, blocking, aWorkload(t, gameServers, ns, "blocked", nil))
	generatedFor(t, client.ObjectKey{Namespace: ns, Name: "blocked"})
	faster(t, aWorkload(t, gameServers, ns, "early", nil))

	list := kindsText(t)
	rename(t, "{")
	told(t, "malformed")
	invalid(t, game, kindsConfig.String(), workloads.KindsKey, "unexpected end of JSON input", "remedy")
	returns(t, servers, gameServers, "game-0")
	rename(t, list)
	invalid(t, game)

	// What the target says of its size ends a record, and nothing else does.
	resize(t, servers, 0)
	unrecorded(t, game, "game-0")
	set(t, db, []any{"1-9"}, "spec", "reserveOrdinals")
	unrecorded(t, asking(ns, "db", kruiseSets), "db-4")
	resize(t, servers, 1)
	returns(t, servers, gameServers, "game-0")
	if err := env.Client.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	conditioned(t, game, appsv1beta1.ReasonTargetUnread, "not served")
	env.Create(t, crdOf(gameServers))
	servers = aWorkload(t, gameServers, ns, "game", map[string]any{"size": int64(1)})
	returns(t, servers, gameServers, "game-0")
	resize(t, servers, 0) // it is watched again
	unrecorded(t, game, "game-0")
	resize(t, servers, 1)
	returns(t, servers, gameServers, "game-0")
	nudged(t, servers)
	rename(t, `{"workloads":[]}`)
	conditioned(t, game, appsv1beta1.ReasonTargetUnsupported, gameServers.Kind)
	if _, kept := game.Status.PodStates["game-0"]; !kept {
		t.Error("the record was lost together with the name of its kind")
	}
}

// returns sees a pod of the workload recorded, and its successor pinned.
func returns(t *testing.T, workload client.Object, kind schema.GroupVersionKind, name string) {
	t.Helper()
	state := asking(workload.GetNamespace(), workload.GetName(), kind)
	conditioned(t, state, appsv1beta1.ReasonRecording, "")
	pod := testenv.APod(name).Of(workload, kind).On("n2").Ready().Pod
	env.Create(t, pod)
	testenv.Eventually(t, func() error {
		read(t, client.ObjectKeyFromObject(state), state)
		if got := state.Status.PodStates[name]; got.NodeName != "n2" || got.UID != pod.UID {
			return fmt.Errorf("record of %s: %+v", name, got)
		}
		return nil
	})
	if err := env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	next := testenv.APod(name).Of(workload, kind).Pod
	if err := env.Client.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if next.Annotations[appsv1beta1.AnnotationInjected] != state.Name || next.Spec.Affinity == nil {
		t.Errorf("%s is not pinned: %v", name, next.Annotations)
	}
	if err := env.Client.Delete(t.Context(), next, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

// faster makes the first pod of a workload before its PersistentPodState is generated. Its
// addresses are held, for it was here before.
func faster(t *testing.T, workload client.Object) {
	t.Helper()
	pod := testenv.APod(workload.GetName()+"-0").Of(workload, gameServers).With(reservation.RetainAnnotation, "10").Pod
	if err := env.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if got := pod.Annotations[pin.AnnotationNode]; got != "n1" {
		t.Errorf("pinned to %q, want n1: annotations %v", got, pod.Annotations)
	}
}

// nudged waits until a workload is woken that lacks a pod.
func nudged(t *testing.T, workload client.Object) {
	t.Helper()
	testenv.Eventually(t, func() error {
		read(t, client.ObjectKeyFromObject(workload), workload)
		if workload.GetAnnotations()[controller.AnnotationNudged] == "" {
			return fmt.Errorf("annotations: %v", workload.GetAnnotations())
		}
		return nil
	})
}

// forgotten leaves a StatefulSet without its pod, long after the leader started.
func forgotten(t *testing.T) {
	set := testenv.AStatefulSet("web", 1).In(env.Namespace(t))
	set.Spec.Template.Annotations = map[string]string{reservation.RetainAnnotation: "10"}
	env.Create(t, set.StatefulSet)
	nudged(t, set.StatefulSet)
}

// asking is what asks that the workload's pods return.
func asking(ns, name string, kind schema.GroupVersionKind) *appsv1beta1.PersistentPodState {
	s := testenv.APersistentPodState(name).In(ns).Prefers(100, hostname).PersistentPodState
	s.Spec.TargetReference.APIVersion, s.Spec.TargetReference.Kind = kind.GroupVersion().String(), kind.Kind
	s.Spec.PersistentPodStateRetentionPolicy = appsv1beta1.RetainWhenScaled
	return s
}

func conditioned(t *testing.T, s *appsv1beta1.PersistentPodState, reason, hint string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		read(t, client.ObjectKeyFromObject(s), s)
		c := meta.FindStatusCondition(s.Status.Conditions, appsv1beta1.ConditionRecording)
		if c == nil || c.Reason != reason || !strings.Contains(c.Message, hint) {
			return fmt.Errorf("condition of %s: %+v, want %s", s.Name, c, reason)
		}
		return nil
	})
}

func unrecorded(t *testing.T, s *appsv1beta1.PersistentPodState, pod string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		read(t, client.ObjectKeyFromObject(s), s)
		if got, recorded := s.Status.PodStates[pod]; recorded {
			return fmt.Errorf("record of %s: %+v", pod, got)
		}
		return nil
	})
}

func generatedFor(t *testing.T, key client.ObjectKey) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var state appsv1beta1.PersistentPodState
		if err := env.Client.Get(t.Context(), key, &state); err != nil {
			return err
		}
		if !metav1.IsControlledBy(&state, freshWorkload(t, key)) {
			return fmt.Errorf("owners: %v", state.OwnerReferences)
		}
		return nil
	})
}

func freshWorkload(t *testing.T, key client.ObjectKey) client.Object {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gameServers)
	read(t, key, o)
	return o
}
