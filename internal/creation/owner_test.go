package creation_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/pin"
	pinadmit "github.com/limpet-io/limpet/internal/pin/admit"
	pincontroller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const (
	webDB   = "apps/Deployment/web/db"
	blueIPs = "k8s.cni.cncf.io/IPAMClaim/vm.blue/ips"
)

// deployment makes the Deployment web with a ReplicaSet that has its name.
func deployment(t *testing.T) *appsv1.ReplicaSet {
	t.Helper()
	const name = "web"
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: testenv.APod("web").Spec}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: name}, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template},
	}
	put(t, d)
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name + "-abc", OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment")),
		}},
		Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template},
	}
	put(t, set)
	return set
}

// podOf is a pod of a ReplicaSet of a Deployment, that asks for an owner.
func podOf(set *appsv1.ReplicaSet, name, owner string) testenv.Pod {
	pod := testenv.APod(name).Of(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")).With(reservation.KeepAnnotation, "10m").With(reservation.OwnerAnnotation, owner)
	pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: set.Name[strings.LastIndexByte(set.Name, '-')+1:]}
	return pod
}

// A pod gets the owner of its own controller, whatever it asks for. A pod whose controller does not exist gets none.
func TestAnOwnerIsOfTheControllerOfThePod(t *testing.T) {
	serve(t)
	web := deployment(t)
	missing, foreign := web.DeepCopy(), web.DeepCopy()
	missing.UID = "forged"
	foreign.ResourceVersion, foreign.Name, foreign.OwnerReferences[0].Name, foreign.OwnerReferences[0].UID = "", "shop-abc", "shop", "forged"
	other := web.DeepCopy()
	other.ResourceVersion, other.Name = "", "other-name"
	set := testenv.AStatefulSet("set", 1).In(web.Namespace).StatefulSet
	put(t, foreign, other, set)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "batch-29", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "batch/v1", Kind: "CronJob", Name: "batch", UID: "c", Controller: new(true)},
	}}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: *testenv.APod("web").Spec.DeepCopy()}}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	put(t, job)
	claiming := func(claim string) testenv.Pod {
		pod := testenv.APod("vm-1").In(web.Namespace).With("k8s.v1.cni.cncf.io/networks", fmt.Sprintf(`[{"name":"other"},{"name":"blue","ipam-claim-reference":%q}]`, claim))
		return pod
	}
	bare := testenv.APod("bare").In(web.Namespace).With(reservation.KeepAnnotation, "10m")
	jobs, sandboxes := batchv1.SchemeGroupVersion.WithKind("Job"), schema.GroupVersionKind{Group: "agents.x-k8s.io", Version: "v1alpha1", Kind: "Sandbox"}
	sandbox := &metav1.ObjectMeta{Namespace: web.Namespace, Name: "a", UID: "u"}
	for name, tc := range map[string]struct {
		pod  testenv.Pod
		want string
	}{
		"of a Deployment":                       {podOf(web, "web-1", "db"), webDB},
		"of a template that was copied":         {podOf(web, "web-1", webDB), webDB},
		"that names another Deployment":         {podOf(web, "web-1", "apps/Deployment/shop/db"), webDB},
		"of a ReplicaSet that does not exist":   {podOf(missing, "web-1", webDB), "db"},
		"of a Deployment that does not exist":   {podOf(foreign, "shop-1", "db"), "db"},
		"of a ReplicaSet with another name":     {podOf(other, "web-1", "db"), "apps/ReplicaSet/other-name/db"},
		"of a CronJob":                          {testenv.APod("job").Of(job, jobs).With(reservation.OwnerAnnotation, "db"), "batch/CronJob/batch/db"},
		"of a kind that no program reads":       {testenv.APod("a").Of(sandbox, sandboxes).With(reservation.OwnerAnnotation, "db"), "agents.x-k8s.io/Sandbox/a/db"},
		"of no controller":                      {bare.With(reservation.OwnerAnnotation, "db"), "///db"},
		"of no controller, that names one":      {bare.With(reservation.OwnerAnnotation, webDB), "///db"},
		"of a claim":                            {claiming("vm.blue"), blueIPs},
		"of a claim, from a copy":               {claiming("vm.blue").With(reservation.OwnerAnnotation, "k8s.cni.cncf.io/IPAMClaim/other/ips"), blueIPs},
		"of a claim, and of a name":             {claiming("vm.blue").With(reservation.OwnerAnnotation, "db"), "///db"},
		"of a claim that no object can be":      {claiming("a/ips"), ""},
		"of a claim, and of a StatefulSet":      {claiming("vm.blue").OwnedBy(set), ""},
		"of a StatefulSet":                      {testenv.APod("set-0").In(web.Namespace).OwnedBy(set).With(reservation.OwnerAnnotation, webDB), "db"},
		"that is no name":                       {podOf(web, "web-1", "a b"), "a b"},
		"that is no name of another Deployment": {podOf(web, "web-1", "apps/Deployment/shop/"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := tc.pod.DeepCopy()
			if err := env.Client.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			annotated(t, pod, map[string]string{reservation.OwnerAnnotation: tc.want})
			env.Remove(t, pod)
			dry := tc.pod.DeepCopy()
			if err := env.Client.Create(t.Context(), dry, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			annotated(t, dry, map[string]string{reservation.OwnerAnnotation: tc.want})
		})
	}
}

// The network of a claim gets its owner also where the pod keeps nothing.
func TestANetworkHasTheOwnerOfItsClaim(t *testing.T) {
	pod := testenv.APod("vm-1").In(env.Namespace(t)).With(reservation.KeepAnnotation, "0").With(reservation.NetworkSelections[0], `[{"name":"blue", "ipam-claim-reference": "vm.blue"}]`)
	annotated(t, admitted(t, pod.Pod), map[string]string{
		reservation.OwnerAnnotation:      blueIPs,
		reservation.NetworkSelections[0]: `[{"cni-args":{"limpet.dev/owner":"` + blueIPs + `"},"ipam-claim-reference":"vm.blue","name":"blue"}]`,
	})
}

// An owner has one living pod. A later one gets the address of its own name, unless the first one ends or has ended.
func TestAnOwnerHasOneLivingPod(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(t *testing.T, first *corev1.Pod)
		want string
	}{
		"that lives": {func(*testing.T, *corev1.Pod) {}, "db"},
		"that is being deleted": {func(t *testing.T, first *corev1.Pod) {
			if err := env.Client.Delete(t.Context(), first, client.GracePeriodSeconds(60)); err != nil {
				t.Fatal(err)
			}
		}, webDB},
		"that has failed": {func(t *testing.T, first *corev1.Pod) {
			first.Status.Phase = corev1.PodFailed
			if err := env.Client.Status().Update(t.Context(), first); err != nil {
				t.Fatal(err)
			}
		}, webDB},
		"that is gone": {func(t *testing.T, first *corev1.Pod) { env.Remove(t, first) }, webDB},
	} {
		t.Run(name, func(t *testing.T) {
			node := putNode(t)
			web := deployment(t)
			first := admitted(t, podOf(web, "web-1", "db").On(node.Name).Pod)
			annotated(t, first, map[string]string{reservation.OwnerAnnotation: webDB})
			testenv.Eventually(t, func() error {
				return serving.GetCache().Get(t.Context(), client.ObjectKeyFromObject(first), &corev1.Pod{})
			})
			tc.end(t, first) // which the cache may not show yet
			second := admitted(t, podOf(web, "web-2", "db").Pod)
			annotated(t, second, map[string]string{reservation.OwnerAnnotation: tc.want})
		})
	}
}

// A pod returns to the node where the last pod of its owner ran, while the node holds the addresses. A reservation of a node
// on which no such pod was seen attracts none.
func TestAPodReturnsToTheNodeOfItsOwner(t *testing.T) {
	web, home, thief := deployment(t), putNode(t), putNode(t)
	next := func() *corev1.Pod {
		pod := podOf(web, "", "db").Pod
		pod.GenerateName = "web-abc-"
		return admitted(t, pod)
	}
	shown := func(pod *corev1.Pod) *limpetv1alpha1.IPReservation {
		r := testenv.AReservation(pod, time.Now())
		r.Status.Pod = webDB
		return r
	}
	last := podOf(web, "web-1", webDB).On(home.Name).At("10.0.1.9").Pod
	put(t, last)
	env.Remove(t, last)
	testenv.Eventually(t, func() error {
		life, err := sightings.LastOf(t.Context(), serving.GetCache(), client.ObjectKey{Namespace: web.Namespace, Name: webDB})
		if err != nil || life == nil || life.UID != last.UID || serving.GetCache().Get(t.Context(), client.ObjectKeyFromObject(last), &corev1.Pod{}) == nil {
			return fmt.Errorf("the pod is not remembered: %w", err)
		}
		return nil
	})
	none := map[string]string{pin.AnnotationNode: "", reservation.OwnerAnnotation: webDB, "kruise.io/injected-persistent-pod-state": ""}
	pod := next()
	annotated(t, pod, none)
	env.Remove(t, pod)

	forged := last.DeepCopy()
	forged.Spec.NodeName = thief.Name
	put(t, shown(forged))
	pod = next()
	annotated(t, pod, none)
	env.Remove(t, pod)

	put(t, shown(last))
	pod = next()
	annotated(t, pod, map[string]string{pin.AnnotationNode: home.Name, reservation.OwnerAnnotation: webDB})
	if len(pod.Spec.SchedulingGates) != 1 || pod.Spec.Affinity == nil {
		t.Errorf("gates %v, affinity %v", pod.Spec.SchedulingGates, pod.Spec.Affinity)
	}
}

// A pod whose controllers cannot be read is refused, so that its owner tries again: it could not be told from a forged one.
func TestAPodWhoseOwnerCannotBeReadIsRefused(t *testing.T) {
	webhook, traffic := observed(t)
	ns := env.Namespace(t)
	release := traffic.Hold(t, "/namespaces/"+ns+"/")
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	pod := podOf(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-abc", UID: "u"}}, "web-1", "db")
	if answer := webhook.Handle(ctx, createIn(t, pod, false)); answer.Allowed || answer.Result.Code != http.StatusServiceUnavailable {
		t.Errorf("answer %+v, want 503", answer)
	}
}

// A webhook whose cache shows no ReplicaSet yet, and a pod as living whose deletion has begun, asks the API server.
func TestAnOwnerIsCompletedByACacheThatIsBehind(t *testing.T) {
	serve(t)
	web := deployment(t)
	node := putNode(t)
	last := admitted(t, podOf(web, "web-1", "db").On(node.Name).Pod)
	if err := env.Client.Delete(t.Context(), last.DeepCopy(), client.GracePeriodSeconds(60)); err != nil {
		t.Fatal(err)
	}
	options := cluster.CacheOptions(pincontroller.Needs())
	for object, by := range options.ByObject {
		kept := by.Transform
		switch object.(type) {
		case *corev1.Pod:
			by.Transform = func(o any) (any, error) {
				if pod, ok := o.(*corev1.Pod); ok {
					pod.DeletionTimestamp = nil
				}
				return kept(o)
			}
		case *appsv1.ReplicaSet, *appsv1.Deployment:
			by.Label = labels.SelectorFromSet(labels.Set{"is": "unseen"})
		}
		options.ByObject[object] = by
	}
	behind := env.RunCache(t, options, func(c client.FieldIndexer) error { return cluster.AddIndexes(t.Context(), c, pincontroller.Needs()) })
	live := cluster.NewLiveReader(env.Client, cluster.LimitUnproven)
	pins := &pinadmit.Planner{
		Cached: behind, Live: live, LiveProven: live, Workloads: &workloads.Reader{Registry: workloads.NewRegistry(), Cached: behind, Live: live},
		Sightings: &cluster.Sightings{Clock: clock.RealClock{}}, Clock: clock.RealClock{},
	}
	var seen corev1.Pod
	if err := behind.Get(t.Context(), client.ObjectKeyFromObject(last), &seen); err != nil || seen.DeletionTimestamp != nil {
		t.Fatalf("the cache shows %+v, %v", seen.ObjectMeta, err)
	}
	patch, err := pins.Keep(t.Context(), creation.Facts{Pod: podOf(web, "web-2", "db").Pod, Now: time.Now()})
	if err != nil || patch.Annotations[reservation.OwnerAnnotation] != webDB {
		t.Errorf("annotations %v, %v", patch.Annotations, err)
	}
}
