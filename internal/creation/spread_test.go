package creation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// The subsets fill in their order, for each revision by itself, whichever replica is asked.
func TestASpreadFillsItsSubsets(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	d, rs := aDeployment(t, ns, 6)
	s := aSpread(ns, "web", "apps/v1", "Deployment", "web", "a=2", "b=2", "c")
	env.Create(t, s)
	sent(t, generated(rs))
	pods := placed(t, "a a b b c c", some(rs, 6)...)
	for _, pod := range pods {
		match, err := appsv1beta1.ParseMatch(pod.Annotations[appsv1beta1.AnnotationMatchedSpread])
		if err != nil || match.Name != "web" || match.UID == "" {
			t.Errorf("pod %s has %+v, %v", pod.Name, match, err)
		}
		if err := requires(pod, subsetOf(pod)); err != nil {
			t.Error(err)
		}
	}
	placed(t, "a a b", some(aReplicaSet(t, d, "web-2"), 3)...)
	env.Remove(t, pods[2])
	env.Remove(t, pods[0])
	foreseen(t, "a", generated(rs)) // a replica that has seen the first removal alone begins with b
	placed(t, "a b", some(rs, 2)...)
	if ofSpreads.asked[0].Load() == 0 || ofSpreads.asked[1].Load() == 0 {
		t.Error("one replica was not asked")
	}
}

// A dry run shows the subset, and leaves no entry behind.
func TestADryRunTakesNoSlot(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	_, rs := aDeployment(t, ns, 5)
	env.Create(t, aSpread(ns, "web", "apps/v1", "Deployment", "web", "a=1", "b"))
	foreseen(t, "a", generated(rs)) // a dry run asks caches alone
	for range 3 {
		pod := generated(rs)
		if err := env.Client.Create(t.Context(), pod, client.DryRunAll); err != nil || subsetOf(pod) != "a" {
			t.Errorf("subset %q, %v", subsetOf(pod), err)
		}
	}
	var made limpetv1alpha1.DisruptionBookList
	if err := env.Client.List(t.Context(), &made, client.InNamespace(ns)); err != nil || len(made.Items) > 0 {
		t.Errorf("%d books, %v", len(made.Items), err)
	}
	placed(t, "a b", some(rs, 2)...)
}

// Creations that the quota refuses cost no slot: the next ones take over their entries.
func TestRefusedCreationsCostNoSlot(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	_, rs := aDeployment(t, ns, 3)
	env.Create(t, aSpread(ns, "web", "apps/v1", "Deployment", "web", "a=1", "b=1", "c"))
	sent(t, generated(rs))
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "none"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	env.Create(t, quota)
	used := quota.DeepCopy()
	used.Status.Hard, used.Status.Used = quota.Spec.Hard, quota.Spec.Hard
	if err := env.Client.Status().Update(t.Context(), used); err != nil {
		t.Fatal(err)
	}
	refused := 0
	testenv.Eventually(t, func() error { // the API server takes a moment to know the quota
		pod := generated(rs)
		err := env.Client.Create(t.Context(), pod)
		switch {
		case err == nil:
			env.Remove(t, pod)
			return fmt.Errorf("the pod was created")
		case !apierrors.IsForbidden(err):
			t.Fatal(err)
		}
		if refused++; refused < 4 {
			return fmt.Errorf("%d creations were refused", refused)
		}
		return nil
	})
	env.Remove(t, quota)
	testenv.Eventually(t, func() error {
		pod := generated(rs)
		if err := env.Client.Create(t.Context(), pod, client.DryRunAll); err != nil {
			return err
		}
		return nil
	})
	pods := some(rs, 3)
	var got []string
	for _, pod := range pods {
		got = append(got, subsetOf(admitted(t, pod)))
	}
	if slices.Sort(got); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("subsets %v", got)
	}
}

// The ordinals of a StatefulSet decide, wherever they start and in whatever order the pods come.
func TestAStatefulSetIsSpreadByOrdinal(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 5).In(ns).StartingAt(7).StatefulSet
	env.Create(t, set, aSpread(ns, "web", "apps/v1", "StatefulSet", "web", "a=2", "b=2", "c"))
	var pods []*corev1.Pod
	for _, ordinal := range []int{9, 7, 11, 8, 10} {
		pods = append(pods, testenv.APod(fmt.Sprintf("web-%d", ordinal)).In(ns).OwnedBy(set).Pod)
	}
	sent(t, pods[0])
	placed(t, "b a c a b", pods...)
	if text := pods[0].Annotations[appsv1beta1.AnnotationMatchedSpread]; text != `{"name":"web","subset":"b"}` {
		t.Errorf("annotation %s", text)
	}
	var made limpetv1alpha1.DisruptionBookList
	if err := env.Client.List(t.Context(), &made, client.InNamespace(ns)); err != nil || len(made.Items) > 0 {
		t.Errorf("%d books, %v", len(made.Items), err)
	}
}

// Jobs, ReplicaSets and the pods of any other kind are spread, too.
func TestOtherKindsAreSpread(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	template := testenv.AStatefulSet("job", 1).Spec.Template
	template.Labels, template.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "job"}, Spec: batchv1.JobSpec{Parallelism: new(int32(4)), Template: template}}
	env.Create(t, job, aSpread(ns, "job", "batch/v1", "Job", "job", "a=25%", "b=25%", "c"))
	var pods []*corev1.Pod
	for range 4 {
		pod := testenv.APod("").Of(job, batchv1.SchemeGroupVersion.WithKind("Job")).Pod
		pod.GenerateName = "job-"
		pods = append(pods, pod)
	}
	sent(t, pods[0])
	placed(t, "a b c c", pods...)
}

// A workload of a further kind has its size in the scale subresource, and gives names. A pod of
// the same name keeps the slot of its predecessor.
func TestNamedPodsOfAnyKindAreSpread(t *testing.T) {
	serve(t)
	env.ServeKinds(t)
	ns := env.Namespace(t)
	game := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(4)}}}
	game.SetGroupVersionKind(testenv.GameServers)
	game.SetNamespace(ns)
	game.SetName("game")
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), game) })
	env.RemoveAtEnd(t, game)
	env.Create(t, aSpread(ns, "game", "example.com/v1", "GameServerSet", "game", "a=25%", "b=25%", "c"))
	pod := func(name string) *corev1.Pod { return testenv.APod(name).Of(game, testenv.GameServers).Pod }
	sent(t, pod("game-x"))
	foreseen(t, "a", pod("game-x")) // the rights of the controller hold a moment later
	pods := placed(t, "a b c", pod("game-x"), pod("game-y"), pod("game-z"))
	env.Remove(t, pods[1])
	placed(t, "b", pod("game-y"))
}

// The first pods of a namespace's first spread are placed, however young the caches are.
func TestNoPodIsFasterThanItsSpread(t *testing.T) {
	serve(t)
	for range 10 {
		ns := env.Namespace(t)
		_, probe := aDeployment(t, ns, 2)
		env.Patch(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, `{"metadata":{"labels":{"limpet.dev/spreads":"closed"}}}`)
		sent(t, generated(probe))
		env.Create(t, aSpread(ns, "new", "apps/v1", "ReplicaSet", "new", "a=1", "b"))
		rs := probe.DeepCopy()
		rs.ObjectMeta = metav1.ObjectMeta{Namespace: ns, Name: "new"}
		env.Create(t, rs)
		placed(t, "a b", some(rs, 2)...)
	}
}

// While no webhook answers, the label of the namespace says what becomes of its pods.
func TestPodsWhileNoWebhookAnswers(t *testing.T) {
	serve(t)
	closed, open := closedNamespace(t), env.Namespace(t)
	_, ofClosed := aDeployment(t, closed, 2)
	_, ofOpen := aDeployment(t, open, 2)
	opened := aSpread(open, "web", "apps/v1", "Deployment", "web", "a")
	opened.Annotations = map[string]string{appsv1beta1.AnnotationSpreadFailure: appsv1beta1.SpreadOpen}
	env.Create(t, opened, aSpread(closed, "web", "apps/v1", "Deployment", "web", "a"))
	sent(t, generated(ofClosed))
	sent(t, generated(ofOpen))
	placed(t, "a a", generated(ofClosed), generated(ofOpen))
	ofSpreads.down.Store(true)
	defer ofSpreads.down.Store(false)
	if err := env.Client.Create(t.Context(), generated(ofClosed)); !apierrors.IsInternalError(err) {
		t.Errorf("the pod of a closed namespace: %v", err)
	}
	placed(t, "", generated(ofOpen))
	daemon := generated(ofClosed)
	daemon.OwnerReferences[0].Kind = "DaemonSet"
	placed(t, "", daemon)
}

// A book that cannot be written in time refuses no pod of an open namespace, and overfills no subset while one has no
// maximum.
func TestASlowBookRefusesNoPod(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	d, rs := aDeployment(t, ns, 9)
	s := aSpread(ns, "web", "apps/v1", "Deployment", "web", "a=2", "b")
	env.Create(t, s)
	sent(t, generated(rs))
	placed(t, "a", generated(rs))
	slowBooks.Store(true)
	defer slowBooks.Store(false)
	away := generated(rs)
	placed(t, "b", away)
	annotated(t, away, map[string]string{appsv1beta1.AnnotationHomeSubset: "a"})
	env.Told(t, s, "NotBooked", "without an entry")
	env.Change(t, s, func() { s.Spec.Subsets[1].MaxReplicas = new(intstr.FromInt32(5)) })
	seen := aReplicaSet(t, d, "web-2")
	testenv.Eventually(t, func() error {
		pod := generated(seen)
		if err := env.Client.Create(t.Context(), pod); err != nil || subsetOf(pod) != "a" {
			return fmt.Errorf("subset %q, %w", subsetOf(pod), err)
		}
		return nil
	})
}

// The webhook of pods that ask for their address waits for two seconds alone. The answer comes
// before.
func TestASlowBookRefusesNoPodThatKeepsItsAddress(t *testing.T) {
	serve(t)
	env.ServeKinds(t)
	ns := env.Namespace(t)
	game := env.OfKind(t, testenv.GameServers, ns, "game", map[string]any{"size": int64(4)})
	env.Create(t, aSpread(ns, "game", "example.com/v1", "GameServerSet", "game", "a=2", "b"))
	pod := func(name string) *corev1.Pod {
		return testenv.APod(name).Of(game, testenv.GameServers).With(retainAnnotation, "10").Pod
	}
	sent(t, testenv.APod("probe").Of(game, testenv.GameServers).Pod)
	placed(t, "a", pod("game-x"))
	slowBooks.Store(true)
	defer slowBooks.Store(false)
	placed(t, "b", pod("game-y"))
}

// A pod that no subset takes is created, and the user hears of it.
func TestNoSubsetFits(t *testing.T) {
	serve(t)
	c, heard := env.Listen(t)
	ns := env.Namespace(t)
	_, rs := aDeployment(t, ns, 3)
	s := aSpread(ns, "web", "apps/v1", "Deployment", "web", "a=1")
	env.Create(t, s)
	sent(t, generated(rs))
	copied := generated(rs) // as from a template that was copied from a pod
	copied.Annotations = map[string]string{appsv1beta1.AnnotationMatchedSpread: `{"name":"web","subset":"a","uid":"x"}`}
	placed(t, "a", generated(rs))
	before := decided(t, appsv1beta1.ReasonNoSubsetFits)
	if err := c.Create(t.Context(), copied.DeepCopy(), client.DryRunAll); err != nil {
		t.Error(err)
	}
	if err := c.Create(t.Context(), copied); err != nil || subsetOf(copied) != "" {
		t.Errorf("subset %q, %v", subsetOf(copied), err)
	}
	countedOnce(t, appsv1beta1.ReasonNoSubsetFits, before)
	env.RemoveAtEnd(t, copied)
	if err := heard.Names("without a subset of WorkloadSpread web"); err != nil {
		t.Error(err)
	}
	env.Told(t, s, appsv1beta1.ReasonNoSubsetFits, "each is full")
}

// A patch that cannot apply is left out; the pod gets everything else of its subset.
func TestAPatchThatCannotApply(t *testing.T) {
	serve(t)
	c, heard := env.Listen(t)
	ns := env.Namespace(t)
	_, rs := aDeployment(t, ns, 3)
	s := aSpread(ns, "web", "apps/v1", "Deployment", "web", "a=1", "b")
	s.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"subset":"a"},"annotations":{"` + pin.AnnotationNode + `":"forged"}}}`)}
	env.Create(t, s)
	unjudged.Store(true)
	env.Change(t, s, func() {
		s.Spec.Subsets[1].Patch = runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"main","$patch":"mend"}]}}`)}
	})
	unjudged.Store(false)
	sent(t, generated(rs))
	first := placed(t, "a", generated(rs))[0]
	if first.Labels["subset"] != "a" || first.Annotations[pin.AnnotationNode] != "" {
		t.Errorf("labels %v, annotations %v", first.Labels, first.Annotations)
	}
	before := decided(t, appsv1beta1.ReasonPatchFailed)
	pod := generated(rs)
	if err := c.Create(t.Context(), pod.DeepCopy(), client.DryRunAll); err != nil {
		t.Error(err)
	}
	if err := c.Create(t.Context(), pod); err != nil || subsetOf(pod) != "b" || requires(pod, "b") != nil || !strings.HasPrefix(pod.Name, rs.Name) {
		t.Errorf("pod %s, subset %q, %v, %v", pod.Name, subsetOf(pod), err, requires(pod, "b"))
	}
	env.RemoveAtEnd(t, pod)
	countedOnce(t, appsv1beta1.ReasonPatchFailed, before)
	if err := heard.Names("created without a patch"); err != nil {
		t.Error(err)
	}
	env.Told(t, s, appsv1beta1.ReasonPatchFailed, "subset b")
}
