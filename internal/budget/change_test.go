package budget_test

import (
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/budget"
)

// template is a pod with a container, a sidecar and an init container.
func template() *corev1.Pod {
	sized := func(name string, policy corev1.ResourceResizeRestartPolicy) corev1.Container {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		return corev1.Container{
			Name: name, Image: "v1", Resources: corev1.ResourceRequirements{Requests: list.DeepCopy(), Limits: list},
			ResizePolicy: []corev1.ContainerResizePolicy{
				{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
				{ResourceName: corev1.ResourceMemory, RestartPolicy: policy},
			},
		}
	}
	pod := readyPod()
	pod.Spec.Containers = []corev1.Container{sized("app", corev1.RestartContainer)}
	pod.Spec.InitContainers = []corev1.Container{sized("prepare", corev1.NotRequired), sized("proxy", corev1.RestartContainer)}
	pod.Spec.InitContainers[1].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
	return pod
}

func TestDisruptive(t *testing.T) {
	size := func(of *corev1.ResourceRequirements, name corev1.ResourceName, to string) {
		of.Limits[name] = resource.MustParse(to)
	}
	cases := map[string]struct {
		change   func(*corev1.Pod)
		restarts bool
		marks    bool
	}{
		"nothing":                           {func(*corev1.Pod) {}, false, false},
		"the image of a container":          {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "v2" }, true, false},
		"the image of a sidecar":            {func(p *corev1.Pod) { p.Spec.InitContainers[1].Image = "v2" }, true, false},
		"the image of an init container":    {func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "v2" }, false, false},
		"a field that is not known here":    {func(p *corev1.Pod) { p.Spec.Hostname = "other" }, true, false},
		"an environment variable":           {func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A"}} }, true, false},
		"a further container":               {func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "b"}) }, true, false},
		"one container less":                {func(p *corev1.Pod) { p.Spec.InitContainers = p.Spec.InitContainers[:1] }, true, false},
		"a deadline that kills the pod":     {func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(1)) }, true, false},
		"a toleration":                      {func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} }, false, false},
		"the grace period":                  {func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(1)) }, false, false},
		"scheduling gates":                  {func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}} }, false, false},
		"an ephemeral container":            {func(p *corev1.Pod) { p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}} }, false, false},
		"labels and annotations":            {func(p *corev1.Pod) { p.Labels["a"], p.Annotations = "b", map[string]string{"a": "b"} }, false, false},
		"an unavailable label":              {func(p *corev1.Pod) { p.Labels["unavailable-pod.kruise.io/x"] = "" }, false, true},
		"cpu, without a restart":            {func(p *corev1.Pod) { size(&p.Spec.Containers[0].Resources, corev1.ResourceCPU, "2") }, false, false},
		"memory, with a restart":            {func(p *corev1.Pod) { size(&p.Spec.Containers[0].Resources, corev1.ResourceMemory, "2Gi") }, true, false},
		"a sidecar's memory":                {func(p *corev1.Pod) { size(&p.Spec.InitContainers[1].Resources, corev1.ResourceMemory, "2Gi") }, true, false},
		"an init container's memory":        {func(p *corev1.Pod) { size(&p.Spec.InitContainers[0].Resources, corev1.ResourceMemory, "2Gi") }, false, false},
		"memory, written in another way":    {func(p *corev1.Pod) { size(&p.Spec.Containers[0].Resources, corev1.ResourceMemory, "1024Mi") }, false, false},
		"a limit that goes":                 {func(p *corev1.Pod) { delete(p.Spec.Containers[0].Resources.Limits, corev1.ResourceMemory) }, true, false},
		"a resource that cannot be resized": {func(p *corev1.Pod) { size(&p.Spec.Containers[0].Resources, "example.com/gpu", "1") }, true, false},
		"Ready no more":                     {func(p *corev1.Pod) { p.Status.Conditions = nil }, false, true},
		"Ready no more, by a container": {
			func(p *corev1.Pod) {
				p.Status = corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "app", RestartCount: 1}}}
			}, false, false,
		},
		"memory of the pod, with a restart": {
			func(p *corev1.Pod) {
				p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")}}
			}, true, false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := template(), template()
			tc.change(after)
			kept := after.DeepCopy()
			got := budget.Disruptive(before, after)
			if got.Restarts != tc.restarts || got.Marks != tc.marks {
				t.Errorf("restarts %v, marks %v; want %v, %v", got.Restarts, got.Marks, tc.restarts, tc.marks)
			}
			if budget.Disruptive(after, kept).Restarts || budget.Disruptive(before, template()).Restarts {
				t.Error("the comparison changed the pods")
			}
		})
	}
}

func TestDisruptiveKeepsAMarkedPodMarked(t *testing.T) {
	marked := readyPod(func(p *corev1.Pod) { p.Labels["unavailable-pod.kruise.io/x"] = "" })
	if budget.Disruptive(marked, readyPod()).Marks || budget.Disruptive(marked, marked).Marks {
		t.Error("a label that goes, or stays, disrupts")
	}
}

func TestDisruptiveResizesPodsAsAWhole(t *testing.T) {
	of := func(cpu, memory string) *corev1.Pod {
		p := template()
		p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}}
		return p
	}
	if budget.Disruptive(of("1", "1Gi"), of("2", "1Gi")).Restarts {
		t.Error("cpu of the pod restarts a container that needs no restart for cpu")
	}
	if !budget.Disruptive(of("1", "1Gi"), of("1", "2Gi")).Restarts {
		t.Error("memory of the pod restarts no container, and one asks for it")
	}
}

// A change is judged after which other owners decide about the pod, in one step or in several.
func TestNewOwners(t *testing.T) {
	owner := func(uids ...string) *corev1.Pod { // a controller has a capital letter
		return readyPod(func(p *corev1.Pod) {
			for _, uid := range uids {
				low := strings.ToLower(uid)
				p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{UID: types.UID(low), Controller: new(low != uid)})
			}
		})
	}
	cases := map[string]struct {
		before, after *corev1.Pod
		judged        bool
	}{
		"the owner stays":                          {owner("a"), owner("a"), false},
		"one of two owners stays":                  {owner("a", "b"), owner("b", "c"), true},
		"one of two owners goes":                   {owner("a", "b"), owner("b"), true},
		"a second owner comes":                     {owner("a"), owner("a", "ghost"), false},
		"the owner is replaced":                    {owner("a"), owner("ghost"), true},
		"an orphan is adopted":                     {owner(), owner("a"), true},
		"the pod is released":                      {owner("A"), owner(), true},
		"an orphan stays an orphan":                {owner(), owner(), false},
		"both owners are replaced":                 {owner("a", "b"), owner("c", "d"), true},
		"the controller stays":                     {owner("A"), owner("A"), false},
		"the controller stays, and another goes":   {owner("A", "b"), owner("A"), true},
		"the controller stays, and another comes":  {owner("A"), owner("A", "b"), false},
		"the controller goes, another owner stays": {owner("A", "b"), owner("b"), true},
		"the other owner becomes the controller":   {owner("A", "b"), owner("B"), true},
		"the controller controls no longer":        {owner("A", "b"), owner("a", "B"), true},
		"a controller comes beside an owner":       {owner("a"), owner("a", "B"), true},
		"the same owner becomes the controller":    {owner("a"), owner("A"), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			change := budget.Disruptive(tc.before, tc.after)
			for _, user := range []string{"alice", "system:serviceaccount:shop:replicaset-controller"} {
				if got := change.Reowned(user); got != tc.judged {
					t.Errorf("reowned by %s: %v", user, got)
				}
			}
			was, is := metav1.GetControllerOfNoCopy(tc.before), metav1.GetControllerOfNoCopy(tc.after)
			loses := was != nil && (is == nil || is.UID != was.UID)
			for _, user := range []string{account + "replicaset-controller", account + "statefulset-controller", account + "generic-garbage-collector", "system:kube-controller-manager"} {
				if got := change.Reowned(user); got != loses {
					t.Errorf("reowned by %s: %v, want %v: an adoption is not judged, and each loss of the controller is", user, got, loses)
				}
			}
		})
	}
}

// No steps of owners that are not judged, in any order, put a pod that its controller owns into the hands of the garbage
// collector while the controller lives: steps of a user, and of a controller that releases and adopts pods. The collector
// deletes a pod that has owners, none of which exists.
func TestNoStepsOfOwnersEscape(t *testing.T) {
	owned := func(owners string) *corev1.Pod { // one letter for each owner; a capital one controls
		return readyPod(func(p *corev1.Pod) {
			for _, o := range owners {
				p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{
					UID: types.UID(strings.ToLower(string(o))), Controller: new(unicode.IsUpper(o)),
				})
			}
		})
	}
	var sets []string
	for n := range 27 { // each of three owners is absent, there, or the controller
		set := ""
		for i, rest := 0, n; i < 3; i, rest = i+1, rest/3 {
			set += []string{"", string(rune('a' + i)), string(rune('A' + i))}[rest%3]
		}
		controllers := 0
		for _, o := range set {
			if unicode.IsUpper(o) {
				controllers++
			}
		}
		if controllers <= 1 {
			sets = append(sets, set)
		}
	}
	for _, start := range []string{"A", "Ab", "a", "ab"} {
		reached, next := map[string]bool{start: true}, []string{start}
		for len(next) > 0 {
			from := next[0]
			next = next[1:]
			for _, to := range sets {
				change := budget.Disruptive(owned(from), owned(to))
				if !reached[to] && (!change.Reowned("alice") || start[0] == 'A' && !change.Reowned(account+"replicaset-controller")) {
					reached[to], next = true, append(next, to)
				}
			}
		}
		for set := range reached {
			if (set != "" || start[0] == 'A') && !strings.ContainsAny(set, "aA") {
				t.Errorf("from the owners %q a user comes to %q without a judgement", start, set)
			}
		}
		if len(reached) < 2 {
			t.Errorf("no step from %q is free", start)
		}
	}
}
