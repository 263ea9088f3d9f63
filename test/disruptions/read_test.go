package disruptions_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/test/disruptions"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.MainAudited(m, os.Getenv(testenv.AssetsVar), &env, disruptions.AuditPolicy))
}

// recorded returns the events of a namespace.
func recorded(t *testing.T, namespace string) []disruptions.Event {
	t.Helper()
	file, err := os.Open(env.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	events, err := disruptions.Read(file, namespace)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReadTheLogOfAnAPIServer makes every request that Check knows, and reads what the API
// server writes about it.
func TestReadTheLogOfAnAPIServer(t *testing.T) {
	namespace, ctx := env.Namespace(t), t.Context()
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace},
		Spec: appsv1.ReplicaSetSpec{Replicas: new(int32), Selector: web(), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}}},
		}},
	}
	must(t, env.Client.Create(ctx, set))
	must(t, env.Client.SubResource("scale").Update(ctx, set, client.WithSubResourceBody(&autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: 4},
	})))
	pods := map[string]*corev1.Pod{}
	for _, name := range []string{"a", "b", "c", "d"} {
		p := testenv.APod(name).In(namespace).On("n1").Ready().Pod
		p.Labels = map[string]string{"app": "web"}
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		env.Create(t, p)
		pods[name] = p
	}
	evict := func(name string, eviction policyv1.Eviction, options ...client.SubResourceCreateOption) {
		t.Helper()
		must(t, env.Client.SubResource("eviction").Create(ctx, pods[name], &eviction, options...))
	}
	evict("a", policyv1.Eviction{}, client.DryRunAll)
	evict("a", policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}})
	must(t, env.Client.Delete(ctx, pods["a"], client.DryRunAll))
	must(t, env.Client.Create(ctx, testenv.APod("e").In(namespace).On("n1").Pod, client.DryRunAll)) // its answer has no version
	evict("a", policyv1.Eviction{})
	must(t, env.Client.Delete(ctx, pods["b"]))
	env.Patch(t, pods["d"], `{"spec":{"containers":[{"name":"main","image":"example.com/other"}]}}`)
	must(t, env.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.MatchingLabels{"app": "web"}))
	must(t, env.Client.Delete(ctx, set))

	var got []string
	for _, e := range recorded(t, namespace) {
		got = append(got, summary(e))
		if e.Done.Before(e.Received) || time.Since(e.Received) > time.Hour || e.User == "" || e.Code >= 300 {
			t.Errorf("event %+v", e)
		}
	}
	want := []string{
		"create replicasets web size 0", "update replicasets/scale web size 4",
		"create pods a ready false", "update pods/status a ready true", "create pods b ready false", "update pods/status b ready true",
		"create pods c ready false", "update pods/status c ready true", "create pods d ready false", "update pods/status d ready true",
		"dry run create pods/eviction a", "dry run create pods/eviction a", "dry run delete pods a", "dry run create pods e",
		"create pods/eviction a", "delete pods b ready true deleting", "patch pods d ready true image example.com/other",
		"deletecollection pods a", "deletecollection pods b", "deletecollection pods c", "deletecollection pods d",
		"delete replicasets web gone",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// summary is an event as a line.
func summary(e disruptions.Event) string {
	var s strings.Builder
	if e.DryRun {
		s.WriteString("dry run ")
	}
	fmt.Fprintf(&s, "%s %s", e.Verb, e.Resource)
	if e.Subresource != "" {
		s.WriteString("/" + e.Subresource)
	}
	s.WriteString(" " + e.Name)
	if p := e.Pod; p != nil {
		fmt.Fprintf(&s, " ready %t", p.Ready)
		if p.Deleting {
			s.WriteString(" deleting")
		}
		if p.Images != "example.com/main" {
			s.WriteString(" image " + p.Images)
		}
	}
	if w := e.Workload; w != nil && w.Gone {
		s.WriteString(" gone")
	} else if w != nil {
		fmt.Fprintf(&s, " size %d", w.Replicas)
	}
	return s.String()
}

// A Job wants as many pods at a time as it still needs, and objects of other kinds say theirs.
func TestReadWorkloadsOfOtherKinds(t *testing.T) {
	namespace, ctx := env.Namespace(t), t.Context()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job", Namespace: namespace}, Spec: batchv1.JobSpec{
		Parallelism: new(int32(3)), Completions: new(int32(2)), Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}}},
		},
	}}
	must(t, env.Client.Create(ctx, job))
	env.Patch(t, job, `{"spec":{"suspend":true}}`)
	must(t, env.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	var got []string
	for _, e := range recorded(t, namespace) {
		got = append(got, summary(e))
	}
	if want := []string{"create jobs job size 2", "patch jobs job size 0", "delete jobs job gone"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	const line = `{"stage":"ResponseComplete","verb":"update","objectRef":{"resource":"clonesets","namespace":"shop","name":"web","apiGroup":"apps.kruise.io"%s},` +
		`"responseStatus":{"code":200},"responseObject":{"kind":%q,"metadata":{"name":"web","uid":"u","resourceVersion":"7"},"spec":{"replicas":4}}}` + "\n"
	for _, text := range []string{fmt.Sprintf(line, "", "CloneSet"), fmt.Sprintf(line, `,"subresource":"scale"`, "Scale")} {
		events, err := disruptions.Read(strings.NewReader(text))
		must(t, err)
		if w := events[0].Workload; w == nil || w.UID != "u" || w.Replicas != 4 || w.ScaleOnly == (w.Kind == "CloneSet") {
			t.Errorf("workload %+v", w)
		}
	}
	broken := strings.Replace(fmt.Sprintf(line, "", "CloneSet"), `"7"`, `""`, 1)
	if events, err := disruptions.Read(strings.NewReader(broken), "other"); len(events) > 0 || err != nil {
		t.Errorf("of another namespace %v: %v", events, err)
	}
}
