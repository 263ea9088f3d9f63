package disruption_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env,
		limpetv1alpha1.AddToScheme, policyv1beta1.AddToScheme, apiextensionsv1.AddToScheme))
}

// readerWith is a reader with a cache, and a client for scale subresources.
func readerWith(t *testing.T, scales client.SubResourceClientConstructor) (*disruption.Reader, client.Reader) {
	t.Helper()
	mgr := env.NewManager(t, cluster.CacheOptions(disruption.Needs(), workloads.Needs("limpet-system")))
	if err := cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), disruption.Needs()); err != nil {
		t.Fatal(err)
	}
	if scales == nil {
		scales = mgr.GetClient()
	}
	reader := disruption.NewReader(mgr.GetCache(), scales)
	reader.Kinds = workloads.NewRegistry()
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		t.Fatal(err)
	}
	watcher := &workloads.Watcher{
		Registry: reader.Kinds, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Discovery: served, Namespaces: []string{"limpet-system"},
		Events: mgr.GetEventRecorder("limpet-controller"), Clock: testenv.HastyClock{},
	}
	if err := watcher.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	env.Start(t, mgr)
	return reader, mgr.GetCache()
}

// cached waits until a cache shows an object in its present version.
func cached(t *testing.T, in client.Reader, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		got := o.DeepCopyObject().(client.Object)
		testenv.Eventually(t, func() error {
			if err := in.Get(t.Context(), client.ObjectKeyFromObject(o), got); err != nil {
				return err
			}
			if cluster.Behind(got.GetResourceVersion(), o.GetResourceVersion()) {
				return fmt.Errorf("the cache has %T %s of an older version", o, o.GetName())
			}
			return nil
		})
	}
}

func meta(ns, name string, owner ...metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ns, Name: name, OwnerReferences: owner}
}

func controlledBy(o client.Object, apiVersion, kind string) metav1.OwnerReference {
	return *metav1.NewControllerRef(o, schema.FromAPIVersionAndKind(apiVersion, kind))
}

// owned is a Ready pod of the application web that a workload controls; nil for none.
func owned(ns, name string, owner ...metav1.OwnerReference) *corev1.Pod {
	pod := testenv.APod(name).In(ns).Ready().Pod
	pod.Labels, pod.OwnerReferences = map[string]string{"app": "web"}, owner
	return pod
}

func budgetOf(ns string, edit func(*policyv1beta1.PodUnavailableBudget)) *policyv1beta1.PodUnavailableBudget {
	pub := &policyv1beta1.PodUnavailableBudget{ObjectMeta: meta(ns, "web")}
	pub.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	pub.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	if edit != nil {
		edit(pub)
	}
	return pub
}

func target(apiVersion, kind, name string) func(*policyv1beta1.PodUnavailableBudget) {
	return func(pub *policyv1beta1.PodUnavailableBudget) {
		pub.Spec.Selector = nil
		pub.Spec.TargetReference = &policyv1beta1.TargetReference{APIVersion: apiVersion, Kind: kind, Name: name}
	}
}

// The size is that of the target, or of the distinct workloads of the selected pods; through
// ReplicaSets and Jobs where the workload itself does not tell.
func TestTheSizeOfABudget(t *testing.T) {
	env.ServeKinds(t)
	env.ServeKind(t, testenv.CloneSets)
	template := testenv.AStatefulSet("web", 1).Spec.Template
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	reader, in := readerWith(t, nil)
	testenv.Eventually(t, func() error {
		if held := reader.Kinds.Held(); len(held) < 3 {
			return fmt.Errorf("the cache holds %v", held)
		}
		return nil
	})
	type made struct {
		pods  []*corev1.Pod
		owned []client.Object
	}
	held := func(t *testing.T, o client.Object) {
		testenv.Eventually(t, func() error {
			kind := o.GetObjectKind().GroupVersionKind()
			store, err := cluster.StoreOf[client.Object](t.Context(), reader.Cached(), workloads.Short(kind))
			if err != nil {
				return err
			}
			if _, found := store.Get(o.GetNamespace(), o.GetName()); !found {
				return fmt.Errorf("the cache has no %s %s", kind.Kind, o.GetName())
			}
			return nil
		})
	}
	// none makes a workload that has no pod, and one of other pods.
	none := func(kind schema.GroupVersionKind, spec map[string]any) func(t *testing.T, ns string) made {
		return func(t *testing.T, ns string) made {
			for name, app := range map[string]string{"web": "web", "other": "other"} {
				labels := map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": app}}}
				all := map[string]any{"template": labels}
				maps.Copy(all, spec)
				held(t, env.OfKind(t, kind, ns, name, all))
			}
			return made{}
		}
	}
	deployment := func(t *testing.T, ns string) (*appsv1.Deployment, *appsv1.ReplicaSet) {
		d := &appsv1.Deployment{ObjectMeta: meta(ns, "web"), Spec: appsv1.DeploymentSpec{Replicas: new(int32(5)), Selector: selector, Template: template}}
		env.Create(t, d)
		set := &appsv1.ReplicaSet{ObjectMeta: meta(ns, "web-1", controlledBy(d, "apps/v1", "Deployment")), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(2)), Selector: selector, Template: template}}
		env.Create(t, set)
		return d, set
	}
	rollout := func(t *testing.T, ns string) (sets []*appsv1.ReplicaSet) {
		of := &unstructured.Unstructured{}
		of.SetName("web")
		of.SetUID("rollout")
		for i, replicas := range []int32{4, 2} {
			set := &appsv1.ReplicaSet{ObjectMeta: meta(ns, fmt.Sprintf("web-%d", i+1), controlledBy(of, "argoproj.io/v1alpha1", "Rollout")), Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector, Template: template}}
			env.Create(t, set)
			sets = append(sets, set)
		}
		return sets
	}
	game := func(t *testing.T, ns string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "web", "namespace": ns}, "spec": map[string]any{"size": int64(6)}}}
		o.SetGroupVersionKind(testenv.GameServers)
		testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), o) }) // a new kind is served a moment later
		env.RemoveAtEnd(t, o)
		held(t, o)
		return o
	}
	for name, tc := range map[string]struct {
		make    func(t *testing.T, ns string) made
		budget  func(*policyv1beta1.PodUnavailableBudget)
		size    int32
		pods    int
		unknown string
	}{
		"StatefulSet": {make: func(t *testing.T, ns string) made {
			set := testenv.AStatefulSet("web", 3).In(ns)
			env.Create(t, set.StatefulSet)
			return made{[]*corev1.Pod{owned(ns, "web-0", controlledBy(set, "apps/v1", "StatefulSet"))}, []client.Object{set.StatefulSet}}
		}, budget: target("apps/v1", "StatefulSet", "web"), size: 3, pods: 1},
		"Deployment": {make: func(t *testing.T, ns string) made {
			d, set := deployment(t, ns)
			return made{[]*corev1.Pod{owned(ns, "web-1-a", controlledBy(set, "apps/v1", "ReplicaSet"))}, []client.Object{d, set}}
		}, budget: target("apps/v1", "Deployment", "web"), size: 5, pods: 1},
		"selected pods of a Deployment and a pod of none": {make: func(t *testing.T, ns string) made {
			d, set := deployment(t, ns)
			return made{[]*corev1.Pod{
				owned(ns, "web-1-a", controlledBy(set, "apps/v1", "ReplicaSet")), owned(ns, "web-1-b", controlledBy(set, "apps/v1", "ReplicaSet")), owned(ns, "bare"),
			}, []client.Object{d, set}}
		}, size: 6, pods: 3},
		"Rollout, through its ReplicaSets": {make: func(t *testing.T, ns string) made {
			sets := rollout(t, ns)
			return made{[]*corev1.Pod{owned(ns, "web-1-a", controlledBy(sets[0], "apps/v1", "ReplicaSet"))}, []client.Object{sets[0], sets[1]}}
		}, budget: target("argoproj.io/v1alpha1", "Rollout", "web"), size: 6, pods: 1},
		"Job": {make: func(t *testing.T, ns string) made {
			job := &batchv1.Job{ObjectMeta: meta(ns, "web"), Spec: batchv1.JobSpec{Parallelism: new(int32(4)), Completions: new(int32(3)), Template: *template.DeepCopy()}}
			job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
			env.Create(t, job)
			return made{[]*corev1.Pod{owned(ns, "web-a", controlledBy(job, "batch/v1", "Job"))}, []client.Object{job}}
		}, budget: target("batch/v1", "Job", "web"), size: 3, pods: 1},
		"another kind, by its scale": {make: func(t *testing.T, ns string) made {
			o := game(t, ns)
			return made{[]*corev1.Pod{owned(ns, "web-0", controlledBy(o, "example.com/v1", "GameServerSet"))}, nil}
		}, budget: target("example.com/v1", "GameServerSet", "web"), size: 6, pods: 1},
		"selected pods of another kind": {make: func(t *testing.T, ns string) made {
			o := game(t, ns)
			return made{[]*corev1.Pod{owned(ns, "web-0", controlledBy(o, "example.com/v1", "GameServerSet"))}, nil}
		}, size: 6, pods: 1},
		"a kind that is not served": {make: func(_ *testing.T, ns string) made {
			return made{[]*corev1.Pod{owned(ns, "web-0", metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Nothing", Name: "web", UID: "u", Controller: new(true)})}, nil}
		}, budget: target("example.com/v1", "Nothing", "web"), pods: 1, unknown: "the size of Nothing web cannot be read"},
		"selected workloads, of which one has a pod": {make: func(t *testing.T, ns string) made {
			one, none, two, other := testenv.AStatefulSet("one", 1).In(ns), testenv.AStatefulSet("none", 0).In(ns), testenv.AStatefulSet("two", 2).In(ns), testenv.AStatefulSet("other", 4).In(ns)
			for _, set := range []testenv.StatefulSet{one, none, two} {
				set.Spec.Template.Labels, set.Spec.Selector = template.Labels, selector
			}
			env.Create(t, one.StatefulSet, none.StatefulSet, two.StatefulSet, other.StatefulSet)
			return made{[]*corev1.Pod{owned(ns, "one-0", controlledBy(one, "apps/v1", "StatefulSet"))}, []client.Object{one.StatefulSet, none.StatefulSet, two.StatefulSet, other.StatefulSet}}
		}, size: 3, pods: 1},
		"a selected Deployment without a pod": {make: func(t *testing.T, ns string) made {
			d, set := deployment(t, ns)
			return made{nil, []client.Object{d, set}}
		}, size: 5},
		"selected ReplicaSets of a Rollout, of which one has a pod": {make: func(t *testing.T, ns string) made {
			sets := rollout(t, ns)
			return made{[]*corev1.Pod{owned(ns, "web-1-a", controlledBy(sets[0], "apps/v1", "ReplicaSet"))}, []client.Object{sets[0], sets[1]}}
		}, size: 6, pods: 1},
		"ReplicaSets of a Rollout without a pod": {make: func(t *testing.T, ns string) made {
			sets := rollout(t, ns)
			return made{nil, []client.Object{sets[0], sets[1]}}
		}, budget: target("argoproj.io/v1alpha1", "Rollout", "web"), size: 6},
		"selected Jobs, of which one has failed": {make: func(t *testing.T, ns string) made {
			var jobs []client.Object
			for _, name := range []string{"runs", "failed"} {
				job := &batchv1.Job{ObjectMeta: meta(ns, name), Spec: batchv1.JobSpec{Parallelism: new(int32(3)), Template: *template.DeepCopy()}}
				job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
				env.Create(t, job)
				jobs = append(jobs, job)
			}
			failed := jobs[1].(*batchv1.Job)
			failed.Status = batchv1.JobStatus{StartTime: new(metav1.Now()), Conditions: []batchv1.JobCondition{
				{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue}, {Type: batchv1.JobFailed, Status: corev1.ConditionTrue},
			}}
			if err := env.Client.Status().Update(t.Context(), failed); err != nil {
				t.Fatal(err)
			}
			return made{nil, jobs}
		}, size: 3},
		"a selected DaemonSet": {make: func(t *testing.T, ns string) made {
			set := &appsv1.DaemonSet{ObjectMeta: meta(ns, "web"), Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}
			env.Create(t, set)
			set.Status.DesiredNumberScheduled = 7
			if err := env.Client.Status().Update(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			return made{[]*corev1.Pod{owned(ns, "web-a", controlledBy(set, "apps/v1", "DaemonSet"))}, []client.Object{set}}
		}, size: 7, pods: 1},
		"a mirror pod, which no request ends": {make: func(t *testing.T, ns string) made {
			set := testenv.AStatefulSet("web", 3).In(ns)
			env.Create(t, set.StatefulSet)
			mirror := owned(ns, "web-n1", metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "n1", Controller: new(true)})
			metav1.SetMetaDataAnnotation(&mirror.ObjectMeta, corev1.MirrorPodAnnotationKey, "x")
			mirror.Spec.NodeName = "n1"
			return made{[]*corev1.Pod{mirror, owned(ns, "web-0", controlledBy(set, "apps/v1", "StatefulSet"))}, []client.Object{set.StatefulSet}}
		}, size: 3, pods: 1},
		"a selected CloneSet without a pod":             {make: none(testenv.CloneSets, map[string]any{"replicas": int64(4)}), size: 4},
		"a selected Advanced StatefulSet without a pod": {make: none(testenv.KruiseSets, map[string]any{"replicas": int64(5)}), size: 5},
		"a selected named kind without a pod":           {make: none(testenv.GameServers, map[string]any{"size": int64(6)}), size: 6},
		"a selected ReplicationController without a pod": {make: func(t *testing.T, ns string) made {
			rc := &corev1.ReplicationController{ObjectMeta: meta(ns, "web"), Spec: corev1.ReplicationControllerSpec{
				Replicas: new(int32(2)), Selector: template.Labels, Template: template.DeepCopy(),
			}}
			env.Create(t, rc)
			return made{nil, []client.Object{rc}}
		}, size: 2},
		"a workload that is gone": {make: func(_ *testing.T, ns string) made {
			return made{[]*corev1.Pod{owned(ns, "web-0", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "u", Controller: new(true)})}, nil}
		}, budget: target("apps/v1", "StatefulSet", "web"), pods: 1},
		"the budget says": {make: func(_ *testing.T, ns string) made {
			return made{[]*corev1.Pod{owned(ns, "web-0")}, nil}
		}, budget: func(pub *policyv1beta1.PodUnavailableBudget) { pub.Spec.ProtectTotalReplicas = new(int32(9)) }, size: 9, pods: 1},
		"the pods alone": {make: func(t *testing.T, ns string) made {
			set := testenv.AStatefulSet("web", 3).In(ns)
			env.Create(t, set.StatefulSet)
			return made{[]*corev1.Pod{owned(ns, "web-0", controlledBy(set, "apps/v1", "StatefulSet"))}, []client.Object{set.StatefulSet}}
		}, budget: func(pub *policyv1beta1.PodUnavailableBudget) {
			pub.Annotations = map[string]string{policyv1beta1.AnnotationIgnoreScale: "true"}
		}, size: 1, pods: 1},
	} {
		t.Run(name, func(t *testing.T) {
			ns := env.Namespace(t)
			m := tc.make(t, ns)
			cached(t, in, m.owned...)
			env.Create(t, testenv.APod("other").In(ns).Ready().Pod)
			for _, pod := range m.pods {
				env.Create(t, pod)
				cached(t, in, pod)
			}
			f, err := reader.Covered(t.Context(), budgetOf(ns, tc.budget), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if bare := strings.Contains(name, "of none"); (f.Budget.Bare > 0) != bare {
				t.Errorf("%d pods without a workload, want some: %v", f.Budget.Bare, bare)
			}
			if f.Budget.Expected != tc.size || len(f.Budget.Pods) != tc.pods || !strings.Contains(f.Budget.Unknown, tc.unknown) || (tc.unknown == "") != (f.Budget.Unknown == "") {
				t.Errorf("size %d (%q) with %d pods, want %d (%q) with %d", f.Budget.Expected, f.Budget.Unknown, len(f.Budget.Pods), tc.size, tc.unknown, tc.pods)
			}
			for _, pod := range f.Budget.Pods {
				if !pod.Available {
					t.Errorf("pod %s is not available", pod.Name)
				}
			}
		})
	}
}

// counted counts how often a scale is asked for.
type counted struct {
	client.SubResourceClientConstructor
	n int
}

func (c *counted) SubResource(name string) client.SubResourceClient {
	c.n++
	return c.SubResourceClientConstructor.SubResource(name)
}

// A tenant may name any kind: it is asked for once in ten seconds, and not for each request.
func TestAKindThatIsNotServedIsNotAskedForAgain(t *testing.T) {
	asked := &counted{SubResourceClientConstructor: env.Client}
	reader, _ := readerWith(t, asked)
	ns, now := env.Namespace(t), time.Now()
	pub := budgetOf(ns, target("example.com/v1", "Nothing", "web"))
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {5 * time.Second, 1}, {9 * time.Second, 1}, {11 * time.Second, 2}} {
		if _, err := reader.Covered(t.Context(), pub, now.Add(step.after)); err != nil {
			t.Fatal(err)
		}
		if asked.n != step.want {
			t.Errorf("after %s: %d requests, want %d", step.after, asked.n, step.want)
		}
	}
}

// The budgets of a pod are found by one requirement of their selectors, among many.
func TestTheBudgetsOfAPod(t *testing.T) {
	reader, in := readerWith(t, nil)
	ns := env.Namespace(t)
	label := func(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	for name, s := range map[string]*metav1.LabelSelector{
		"labels":    {MatchLabels: map[string]string{"app": "web", "tier": "front"}},
		"in":        label("app", metav1.LabelSelectorOpIn, "db", "web"),
		"exists":    label("tier", metav1.LabelSelectorOpExists),
		"not-in":    label("app", metav1.LabelSelectorOpNotIn, "db"),
		"absent":    label("more", metav1.LabelSelectorOpDoesNotExist),
		"x-labels":  {MatchLabels: map[string]string{"app": "web", "tier": "back"}},
		"x-in":      label("app", metav1.LabelSelectorOpIn, "db"),
		"x-exists":  label("more", metav1.LabelSelectorOpExists),
		"x-not-in":  label("app", metav1.LabelSelectorOpNotIn, "web"),
		"x-absent":  label("app", metav1.LabelSelectorOpDoesNotExist),
		"x-another": {MatchLabels: map[string]string{"app": "db"}},
	} {
		pub := budgetOf(ns, func(pub *policyv1beta1.PodUnavailableBudget) { pub.Name, pub.Spec.Selector = name, s })
		env.Create(t, pub)
		cached(t, in, pub)
	}
	for name, edit := range map[string]func(*policyv1beta1.PodUnavailableBudget){
		"target":   target("apps/v1", "StatefulSet", "web"),
		"x-target": target("apps/v1", "StatefulSet", "db"),
		"x-kind":   target("apps/v1", "Deployment", "web"),
	} {
		pub := budgetOf(ns, edit)
		pub.Name = name
		env.Create(t, pub)
		cached(t, in, pub)
	}
	pod := owned(ns, "web-0", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "u", Controller: new(true)})
	pod.Labels["tier"] = "front"
	found, err := reader.Covering(t.Context(), pod, 100)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pub := range found {
		names = append(names, pub.Name)
	}
	if got, want := strings.Join(names, " "), "absent exists in labels not-in target"; got != want {
		t.Errorf("budgets %s, want %s", got, want)
	}
}

// A pod that came back with another address does not count for a budget that keeps places.
func TestAPodWithAnotherAddressIsDisplaced(t *testing.T) {
	reader, in := readerWith(t, nil)
	node := env.Node(t)
	for name, tc := range map[string]struct {
		ip        string
		asks      bool
		keeps     bool
		since     time.Time
		displaced bool
	}{
		"another address":                     {"10.0.0.9", true, true, time.Now(), true},
		"the same address":                    {"10.0.0.1", true, true, time.Now(), false},
		"a reservation that is over":          {"10.0.0.9", true, true, time.Now().Add(-time.Hour), false},
		"nothing asked for":                   {"10.0.0.9", false, true, time.Now(), false},
		"a budget that does not keep a place": {"10.0.0.9", true, false, time.Now(), false},
	} {
		t.Run(name, func(t *testing.T) {
			ns := env.Namespace(t)
			former := testenv.APod("web-0").In(ns).On(node.Name).At("10.0.0.1").Pod
			former.UID = "former"
			held := testenv.AReservation(former, tc.since)
			pod := owned(ns, "web-0")
			pod.Spec.NodeName, pod.Status.PodIPs = node.Name, []corev1.PodIP{{IP: tc.ip}}
			if tc.asks {
				pod.Annotations = map[string]string{"io.kubernetes.cri/reserved-ip-duration": "10"}
			}
			env.Create(t, held, pod)
			cached(t, in, held, pod)
			pub := budgetOf(ns, func(pub *policyv1beta1.PodUnavailableBudget) {
				pub.Annotations = map[string]string{policyv1beta1.AnnotationKeepPlace: fmt.Sprint(tc.keeps)}
			})
			f, err := reader.Covered(t.Context(), pub, time.Now())
			if err != nil || len(f.Budget.Pods) != 1 {
				t.Fatalf("%d pods, error %v", len(f.Budget.Pods), err)
			}
			if f.Budget.Pods[0].Displaced != tc.displaced {
				t.Errorf("displaced: %t, want %t", f.Budget.Pods[0].Displaced, tc.displaced)
			}
		})
	}
}

// A pod starts elsewhere before the agent of its former node shows that the earlier life has ended.
// A node that goes on to show it is silent: the pod's place is the new node then.
func TestAPodElsewhereIsDisplacedBeforeItsFormerNodeTells(t *testing.T) {
	reader, in := readerWith(t, nil)
	home, other, ns := env.Node(t), env.Node(t), env.Namespace(t)
	former := testenv.APod("web-0").In(ns).On(home.Name).At("10.0.0.1").Pod
	former.UID = "former"
	held := testenv.AReservation(former, time.Now())
	held.Status.State, held.Status.Until = limpetv1alpha1.IPAttached, nil
	pod := owned(ns, "web-0")
	pod.Spec.NodeName, pod.Status.PodIPs = other.Name, []corev1.PodIP{{IP: "10.0.1.1"}}
	pod.Annotations = map[string]string{"io.kubernetes.cri/reserved-ip-duration": "10"}
	env.Create(t, held, pod)
	cached(t, in, held, pod)
	pub := budgetOf(ns, func(pub *policyv1beta1.PodUnavailableBudget) {
		pub.Annotations = map[string]string{policyv1beta1.AnnotationKeepPlace: "true"}
	})
	for after, want := range map[time.Duration]bool{0: true, time.Minute: false} {
		f, err := reader.Covered(t.Context(), pub, time.Now().Add(after))
		if err != nil || len(f.Budget.Pods) != 1 || f.Budget.Pods[0].Displaced != want {
			t.Errorf("after %s: %+v, error %v; want displaced: %t", after, f.Budget.Pods, err, want)
		}
	}
}
