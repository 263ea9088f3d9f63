package cluster_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, limpetv1alpha1.AddToScheme))
}

// cached is a cache of what some features need.
func cached(t *testing.T, features ...cluster.Needs) cache.Cache {
	t.Helper()
	return cachedBy(t, cluster.CacheOptions(features...), features...)
}

func cachedBy(t *testing.T, options cache.Options, features ...cluster.Needs) cache.Cache {
	t.Helper()
	options.Scheme = env.Scheme
	c, err := cache.New(env.Config, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.AddIndexes(t.Context(), c, features...); err != nil {
		t.Fatal(err)
	}
	if err := cluster.HoldAll(t.Context(), c, features...); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("cache: %v", err)
		}
	})
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("the cache is not filled")
	}
	return c
}

// seen waits until the cache shows a pod.
func seen(t *testing.T, c client.Reader, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	got := &corev1.Pod{}
	testenv.Eventually(t, func() error { return c.Get(t.Context(), client.ObjectKeyFromObject(pod), got) })
	return got
}

// A cache that is filled holds each kind that a feature needs, also those without an index.
func TestNeededKindsAreHeldFromTheStart(t *testing.T) {
	c := cached(t, cluster.Needs{Objects: []cluster.Need{cluster.Of(cluster.DeploymentSize)}})
	informer, err := c.GetInformer(t.Context(), &appsv1.Deployment{}, cache.BlockUntilSynced(false))
	if err != nil || !informer.HasSynced() {
		t.Errorf("Deployments are not listed yet, %v", err)
	}
}

// A feature that reads all objects must not see only those that another feature names.
func TestDifferentRestrictionsAreLifted(t *testing.T) {
	named := func(name string) cluster.Needs {
		return cluster.Needs{Objects: []cluster.Need{cluster.Of[*corev1.ConfigMap]().Named(name, "ns")}}
	}
	for name, tc := range map[string]struct {
		features       []cluster.Needs
		wantRestricted bool
	}{
		"the same name":   {[]cluster.Needs{named("a"), named("a")}, true},
		"two names":       {[]cluster.Needs{named("a"), named("b")}, false},
		"a name, and all": {[]cluster.Needs{named("a"), {Objects: []cluster.Need{cluster.Of[*corev1.ConfigMap]()}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, by := range cluster.CacheOptions(tc.features...).ByObject {
				if restricted := by.Field != nil || by.Namespaces != nil; restricted != tc.wantRestricted {
					t.Errorf("restricted: %t, want %t: %+v", restricted, tc.wantRestricted, by)
				}
			}
		})
	}
}

func TestTheCacheKeepsTheUnionOfAllNeeds(t *testing.T) {
	images := func(from, to *corev1.Pod) {
		to.Spec.Containers = []corev1.Container{{Name: from.Spec.Containers[0].Name, Image: from.Spec.Containers[0].Image}}
	}
	restarts := func(from, to *corev1.Pod) {
		to.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: from.Status.ContainerStatuses[0].RestartCount}}
	}
	spread := cluster.Needs{Objects: []cluster.Need{cluster.Of(cluster.Labels[*corev1.Pod], images)}}
	budget := cluster.Needs{Objects: []cluster.Need{cluster.Of(cluster.Labels[*corev1.Pod], cluster.Phase, restarts)}}
	pod := testenv.APod("web-0").In(env.Namespace(t)).On("n1").Ready()
	pod.Labels, pod.Annotations = map[string]string{"app": "web"}, map[string]string{"k": "v"}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "example.com/main", ImageID: "i", Ready: true, RestartCount: 2, ContainerID: "c"}}
	env.Create(t, pod.Pod)

	got := seen(t, cached(t, spread), pod.Pod)
	want := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}}}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec for one feature (-want +got):\n%s", diff)
	}
	if !cmp.Equal(got.Labels, pod.Labels) || got.Annotations != nil || len(got.Status.ContainerStatuses) > 0 || got.Status.Phase != "" {
		t.Errorf("for one feature the cache keeps %+v", got)
	}
	got = seen(t, cached(t, spread, budget), pod.Pod)
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec for two features (-want +got):\n%s", diff)
	}
	wantStatus := []corev1.ContainerStatus{{RestartCount: 2}}
	if diff := cmp.Diff(wantStatus, got.Status.ContainerStatuses); diff != "" {
		t.Errorf("container statuses for two features (-want +got):\n%s", diff)
	}
	if got.Status.Phase != corev1.PodRunning || len(got.Status.Conditions) != 1 {
		t.Errorf("status for two features: %+v", got.Status)
	}
}

func TestPodsOfADeploymentAreFound(t *testing.T) {
	ns := env.Namespace(t)
	c := cached(t, cluster.OwnerChain())
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: testenv.APod("web").Spec}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec:       appsv1.DeploymentSpec{Selector: selector, Template: template},
	}
	env.Create(t, deployment)
	names := []string{}
	var last *corev1.Pod
	for _, revision := range []string{"a", "b"} { // in the middle of a rollout
		set := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-" + revision, OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment")),
			}},
			Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template},
		}
		env.Create(t, set)
		pod := testenv.APod("web-"+revision+"-1").Of(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
		env.Create(t, pod.Pod, testenv.APod("other-"+revision).In(ns).Pod)
		names, last = append(names, pod.Name), pod.Pod
	}
	found := func(owner types.UID) (got []string, err error) {
		pods, err := cluster.PodsOwnedBy(t.Context(), c, ns, owner)
		for i := range pods {
			got = append(got, pods[i].Name)
		}
		slices.Sort(got)
		return got, err
	}
	testenv.Eventually(t, func() error {
		got, err := found(deployment.UID)
		if err != nil || !slices.Equal(got, names) {
			return fmt.Errorf("pods %v, want %v: %w", got, names, err)
		}
		return nil
	})
	chain, err := cluster.ChainOf(t.Context(), c, seen(t, c, last))
	if err != nil || len(chain) != 2 || chain[0].Kind != "ReplicaSet" || chain[1].Kind != "Deployment" || chain[1].UID != deployment.UID {
		t.Errorf("chain %v, error %v; want the ReplicaSet and the Deployment", chain, err)
	}
	if got, err := found("none"); len(got) > 0 || err != nil {
		t.Errorf("of an owner without pods: pods %v, error %v", got, err)
	}
}
