package tokens_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

const controller = "limpet-controller"

// victims are the objects at which a stolen token of the controller aims.
type victims struct {
	running, gated, waiting, bound *corev1.Pod
	unstarted, starts, alone       *corev1.Pod
	replica                        *corev1.Pod
	set                            *appsv1.StatefulSet
	replicas                       *appsv1.ReplicaSet
	oldReplicas                    *corev1.ReplicationController
	daemons                        *appsv1.DaemonSet
	job                            *batchv1.Job
	game                           *unstructured.Unstructured
	written, generated             *appsv1beta1.PersistentPodState
	mutating                       *admissionv1.MutatingWebhookConfiguration
	validating, other              *admissionv1.ValidatingWebhookConfiguration
	crd                            *apiextensionsv1.CustomResourceDefinition
	event                          *eventsv1.Event
	secret                         *corev1.Secret
	node                           testenv.Node
	namespace                      *corev1.Namespace
	budget                         *policyv1beta1.PodUnavailableBudget
	spread                         *appsv1beta1.WorkloadSpread
	book                           *limpetv1alpha1.DisruptionBook
}

func newVictims(t *testing.T) victims {
	t.Helper()
	deploy(t)
	env.ServeKinds(t)
	node, ns := env.Node(t), env.Namespace(t)
	pod := func(name string) testenv.Pod { return testenv.APod(name).In(ns).With("owner", "tenant") }
	webhooks := testenv.ReadWebhooks(t)
	owner := testenv.AStatefulSet("owner", 1).In(ns)
	owner.UID = "owner"
	pending := func(p testenv.Pod) *corev1.Pod {
		p.Status.Phase = corev1.PodPending
		return p.Pod
	}
	started := pending(pod("starts-0").On(node.Name).OwnedBy(owner.StatefulSet))
	started.Status.StartTime = &metav1.Time{Time: time.Now()}
	v := victims{
		node:    node,
		running: pod("running-0").On(node.Name).Ready().Pod,
		gated:   pod("gated-0").Gated(pin.Gate, "example.com/own").With(pin.AnnotationNode, node.Name).Pod,
		waiting: pod("waiting-0").With(podpatch.AnnotationPlace, "rack=r1").Pod,
		bound:   pod("bound-0").On(node.Name).With(podpatch.AnnotationPlace, "rack=r1").Ready().Pod,

		unstarted: pending(pod("unstarted-0").On(node.Name).OwnedBy(owner.StatefulSet)),
		starts:    started,
		alone:     pending(pod("alone").On(node.Name)),
		replica:   testenv.APod(env.Name("replica")).In("limpet-system").Ready().Pod,
		set:       testenv.AStatefulSet("web", 1).In(ns).With("owner", "tenant").StatefulSet,
		game: &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "game", "namespace": ns, "annotations": map[string]any{"owner": "tenant"}},
			"spec":     map[string]any{"size": int64(1)},
		}},
		written:   testenv.APersistentPodState("written").In(ns).Requires("rack").PersistentPodState,
		generated: generatedState(ns, "generated"),
		mutating:  webhooks.Mutating, validating: webhooks.Validating,
		other: &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
		event: &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "theirs"}, Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "running-0"},
			ReportingController: "kubelet", ReportingInstance: "k", EventTime: metav1.NowMicro(), Action: "a", Reason: "r", Type: corev1.EventTypeNormal,
		},
		secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "limpet-system", Name: "limpet-controller-certificate"}},
	}
	v.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: env.Name("tenant"), Labels: map[string]string{"owner": "tenant"}, Annotations: map[string]string{"owner": "tenant"},
	}}
	if err := env.Client.Create(t.Context(), v.namespace); err != nil { // namespaces stay
		t.Fatal(err)
	}
	v.budget = &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web", Annotations: map[string]string{"owner": "tenant"}}}
	v.budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	v.budget.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	v.book = &limpetv1alpha1.DisruptionBook{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "book"}}
	v.spread = &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web", Annotations: map[string]string{"owner": "tenant"}}}
	v.spread.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	v.spread.Spec.Subsets = []appsv1beta1.WorkloadSpreadSubset{{Name: "a"}}
	own := metav1.ObjectMeta{Namespace: ns, Name: "web", Annotations: map[string]string{"owner": "tenant"}}
	v.replicas = &appsv1.ReplicaSet{ObjectMeta: own, Spec: appsv1.ReplicaSetSpec{Selector: v.set.Spec.Selector, Template: v.set.Spec.Template}}
	v.oldReplicas = &corev1.ReplicationController{ObjectMeta: own, Spec: corev1.ReplicationControllerSpec{Template: &v.set.Spec.Template}}
	v.daemons = &appsv1.DaemonSet{ObjectMeta: own, Spec: appsv1.DaemonSetSpec{Selector: v.set.Spec.Selector, Template: v.set.Spec.Template}}
	v.job = &batchv1.Job{ObjectMeta: own, Spec: batchv1.JobSpec{Template: *v.set.Spec.Template.DeepCopy()}}
	v.job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	v.game.SetGroupVersionKind(testenv.GameServers)
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), v.game) }) // a new kind is served a moment later
	env.RemoveAtEnd(t, v.game)
	silent(v)
	env.Create(t, v.running, v.gated, v.waiting, v.bound, v.unstarted, v.starts, v.alone, v.replica, v.set, v.replicas, v.oldReplicas, v.daemons, v.job, v.written, v.generated, v.mutating, v.validating, v.other, v.event, v.secret, v.budget, v.spread, v.book)
	v.crd = &apiextensionsv1.CustomResourceDefinition{}
	env.Read(t, client.ObjectKey{Name: testenv.ConvertedCRD}, v.crd)
	// Nothing answers there, and nothing is asked: all objects are in the stored version.
	env.ConvertAt(t, "localhost:1", nil)
	return v
}

// silent makes the webhook configurations select nothing, since nothing answers.
func silent(v victims) {
	nothing := []admissionv1.MatchCondition{{Name: "nothing", Expression: "false"}}
	for i := range v.mutating.Webhooks {
		v.mutating.Webhooks[i].MatchConditions = nothing
	}
	for i := range v.validating.Webhooks {
		v.validating.Webhooks[i].MatchConditions = nothing
	}
}

// generatedState is a PersistentPodState as the controller generates it.
func generatedState(ns, name string) *appsv1beta1.PersistentPodState {
	s := testenv.APersistentPodState(name).In(ns).Requires("rack").PersistentPodState
	s.Labels = map[string]string{pin.LabelGenerated: "true"}
	s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: name, UID: "u", Controller: new(true)}}
	return s
}

// ownEvent is an event as the controller makes it.
func ownEvent(ns, name string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "running-0"},
		ReportingController: controller, ReportingInstance: "c", EventTime: metav1.NowMicro(), Action: "a", Reason: "r", Type: corev1.EventTypeNormal,
	}
}

// The token of the controller changes no more than the fields that the controller writes, and
// deletes no more than pods that wait.
func TestAStolenTokenOfTheControllerIsRefused(t *testing.T) {
	v := newVictims(t)
	thief := env.As(t, env.Token(t, controller, v.node.Name))
	ns := v.running.Namespace
	asked := lending(ns, "web-0", loan.Loan{Home: v.node.Name, Phase: loan.Asked, Epoch: 1})
	kept := shown(ns, "web-0", v.node)
	kept.Status.State, kept.Status.Until = limpetv1alpha1.IPReserved, &metav1.Time{Time: time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)}
	env.Create(t, asked, kept)
	pods := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "x", UID: "x"}}
	type cases = map[string]struct {
		by string
		do request
	}
	for group, list := range map[string]cases{
		"pods": {
			"change the image":                     {denied, patch(v.running, `{"spec":{"containers":[{"name":"main","image":"evil"}]}}`)},
			"… of a gated pod":                     {denied, patch(v.gated, `{"spec":{"containers":[{"name":"main","image":"evil"}]}}`)},
			"… on the server":                      {denied, applied(v.running, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"running-0"},"spec":{"containers":[{"name":"main","image":"evil"}]}}`)},
			"add a label":                          {denied, patch(v.running, `{"metadata":{"labels":{"app":"db"}}}`)},
			"change an annotation":                 {denied, patch(v.running, `{"metadata":{"annotations":{"owner":"thief"}}}`)},
			"remove an annotation":                 {denied, patch(v.running, `{"metadata":{"annotations":null}}`)},
			"set one of Limpet's annotations":      {denied, patch(v.running, `{"metadata":{"annotations":{"io.kubernetes.cri/reserved-ip-duration":"600"}}}`)},
			"add an owner":                         {denied, patch(v.running, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"x"}]}}`)},
			"add a finalizer":                      {denied, patch(v.running, `{"metadata":{"finalizers":["example.com/hold"]}}`)},
			"change a label by the status":         {denied, patchStatus(v.running, `{"metadata":{"labels":{"app":"db"}}}`)},
			"add a toleration":                     {denied, patchJSON(v.running, `[{"op":"add","path":"/spec/tolerations/-","value":{"operator":"Exists"}}]`)},
			"end it after a second":                {denied, patch(v.running, `{"spec":{"activeDeadlineSeconds":1}}`)},
			"open a gate of another program":       {denied, patch(v.gated, `{"spec":{"schedulingGates":[{"name":"limpet.dev/pin"}]}}`)},
			"open all gates":                       {denied, patch(v.gated, `{"spec":{"schedulingGates":null}}`)},
			"open its gate and ask for an address": {denied, patch(v.gated, `{"metadata":{"annotations":{"io.kubernetes.cri/reserved-ip-duration":"600"}},"spec":{"schedulingGates":[{"name":"example.com/own"}]}}`)},
			"open its gate and attach a network":   {denied, patch(v.gated, `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"theirs"}},"spec":{"schedulingGates":[{"name":"example.com/own"}]}}`)},
			"open its gate and choose an address":  {denied, patch(v.gated, `{"metadata":{"annotations":{"cni.projectcalico.org/ipAddrs":"[]"}},"spec":{"schedulingGates":[{"name":"example.com/own"}]}}`)},
			"open its gate and select it":          {denied, patch(v.gated, `{"metadata":{"labels":{"app":"db"}},"spec":{"schedulingGates":[{"name":"example.com/own"}]}}`)},
			"open its gate and select a node":      {denied, patch(v.gated, `{"spec":{"schedulingGates":[{"name":"example.com/own"}],"nodeSelector":{"a":"b"}}}`)},
			"report another address":               {denied, patchStatus(v.running, `{"status":{"podIP":"10.9.9.9","podIPs":[{"ip":"10.9.9.9"}]}}`)},
			"report it as not Ready":               {denied, patchStatus(v.running, `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)},
			"… out of service beside that":         {denied, patchStatus(v.running, `{"status":{"conditions":[{"type":"Ready","status":"False"},{"type":"limpet.dev/in-service","status":"False"}]}}`)},
			"report it as ended":                   {denied, patchStatus(v.running, `{"status":{"phase":"Succeeded"}}`)},
			"nominate another node":                {denied, patchStatus(v.gated, `{"status":{"nominatedNodeName":"elsewhere"}}`)},
			"nominate where nothing asks":          {denied, patchStatus(v.waiting, `{"status":{"nominatedNodeName":"`+v.node.Name+`"}}`)},
			"delete a pod that runs":               {denied, remove(v.running)},
			"… that waited, and runs now":          {denied, remove(v.bound)},
			"… that waits for nothing of us":       {denied, remove(v.gated)},
			"… whose node starts it":               {denied, remove(v.starts)},
			"… that nothing makes again":           {denied, remove(v.alone)},
			"… of the other replica":               {denied, remove(v.replica)},
			"… of its own":                         {denied, remove(podOn(t, v.node.Name))},
			"delete all pods":                      {byRole, removeAll(&corev1.Pod{}, client.InNamespace(ns))},
			"create a pod":                         {byRole, create(testenv.APod("evil").In(ns).Pod)},
			"bind a pod":                           {byRole, subresource(v.waiting, "binding", &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: v.node.Name}})},
			"evict a pod":                          {byRole, subresource(v.running, "eviction", &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: v.running.Name, Namespace: ns}})},
			"add an ephemeral container":           {byRole, patchPart(v.running, "ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"name":"e","image":"evil"}]}}`)},
			"resize a pod":                         {byRole, patchPart(v.running, "resize", `{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"9"}}}]}}`)},
		},
		"workloads": {
			"change the image of a template":       {denied, patch(v.set, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"evil"}]}}}}`)},
			"… beside the annotation":              {denied, patch(v.set, `{"metadata":{"annotations":{"limpet.dev/nudged":"t"}},"spec":{"replicas":0}}`)},
			"… on the server":                      {denied, applied(v.set, `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"web"},"spec":{"replicas":0}}`)},
			"scale":                                {denied, patch(v.set, `{"spec":{"replicas":0}}`)},
			"change another annotation":            {denied, patch(v.set, `{"metadata":{"annotations":{"owner":"thief"}}}`)},
			"add an empty annotation":              {denied, patch(v.set, `{"metadata":{"annotations":{"other":""}}}`)},
			"remove another annotation":            {denied, patch(v.set, `{"metadata":{"annotations":{"owner":null}}}`)},
			"wake it and release its pods":         {denied, patch(v.set, `{"metadata":{"annotations":{"limpet.dev/nudged":"t","limpet.dev/release":"all"}}}`)},
			"wake it and let Kubernetes act on it": {denied, patch(v.set, `{"metadata":{"annotations":{"limpet.dev/nudged":"t","deployment.kubernetes.io/revision":"1"}}}`)},
			"add a label":                          {denied, patch(v.set, `{"metadata":{"labels":{"a":"b"}}}`)},
			"wake it and label it for Limpet":      {denied, patch(v.set, `{"metadata":{"annotations":{"limpet.dev/nudged":"t"},"labels":{"limpet.dev/x":"b"}}}`)},
			"add an owner":                         {denied, patch(v.set, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"x"}]}}`)},
			"add a finalizer":                      {denied, patch(v.set, `{"metadata":{"finalizers":["example.com/hold"]}}`)},
			"delete a StatefulSet":                 {byRole, remove(v.set)},
			"change the status":                    {byRole, patchStatus(v.set, `{"status":{"replicas":5}}`)},
			"change a kind that a user named":      {denied, patch(v.game, `{"spec":{"size":0}}`)},
			"… its status, without a subresource":  {denied, patch(v.game, `{"status":{"replicas":99,"phase":"Deleted"}}`)},
			"… another annotation of it":           {denied, patch(v.game, `{"metadata":{"annotations":{"owner":"thief"}}}`)},
			"scale a ReplicaSet":                   {denied, patch(v.replicas, `{"spec":{"replicas":0}}`)},
			"… beside its annotation":              {denied, patch(v.replicas, `{"metadata":{"annotations":{"limpet.dev/nudged":"t"}},"spec":{"replicas":0}}`)},
			"wake it and take it from its owner":   {denied, patch(v.replicas, `{"metadata":{"annotations":{"limpet.dev/nudged":"t"},"labels":{"app":"other"}}}`)},
			"change the image of a ReplicaSet":     {denied, patch(v.replicas, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"evil"}]}}}}`)},
			"… of a DaemonSet":                     {denied, patch(v.daemons, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"evil"}]}}}}`)},
			"… of a ReplicationController":         {denied, patch(v.oldReplicas, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"evil"}]}}}}`)},
			"scale a ReplicationController":        {denied, patch(v.oldReplicas, `{"spec":{"replicas":0}}`)},
			"label a ReplicationController":        {denied, patch(v.oldReplicas, `{"metadata":{"labels":{"a":"b"}}}`)},
			"delete a ReplicationController":       {byRole, remove(v.oldReplicas)},
			"orphan the pods of a ReplicaSet":      {denied, patch(v.replicas, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"x"}]}}`)},
			"suspend a Job":                        {denied, patch(v.job, `{"spec":{"suspend":true}}`)},
			"change another annotation of a Job":   {denied, patch(v.job, `{"metadata":{"annotations":{"owner":"thief"}}}`)},
			"delete a Job":                         {byRole, remove(v.job)},
			"delete a kind that a user named":      {byRole, remove(v.game)},
			"create a deployment":                  {byRole, create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "evil"}})},
			"create a DaemonSet":                   {byRole, create(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}})},
			"read revisions of workloads":          {byRole, get(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}})},
		},
		"states": {
			"create one that is not generated": {denied, create(testenv.APersistentPodState("evil").In(ns).Requires("rack").PersistentPodState)},
			"… for another workload":           {denied, create(changed(generatedState(ns, "evil"), func(s *appsv1beta1.PersistentPodState) { s.Spec.TargetReference.Name = "web" }))},
			"change what a user wrote":         {denied, update(v.written, func(s *appsv1beta1.PersistentPodState) { s.Spec.RequiredPersistentTopology.Keys = []string{"zone"} })},
			"… and call it generated": {denied, update(v.written, func(s *appsv1beta1.PersistentPodState) {
				s.Labels, s.OwnerReferences = generatedState(ns, "written").Labels, generatedState(ns, "written").OwnerReferences
			})},
			"add an annotation to a user's": {denied, update(v.written, func(s *appsv1beta1.PersistentPodState) {
				s.Annotations = map[string]string{pin.AnnotationReleaseOn: "deleted"}
			})},
			"change what only users may say": {denied, update(v.generated, func(s *appsv1beta1.PersistentPodState) {
				s.Spec.PersistentPodStateRetentionPolicy = appsv1beta1.RetainWhenDeleted
			})},
			"annotate a generated one in another way": {denied, update(v.generated, func(s *appsv1beta1.PersistentPodState) {
				s.Annotations = map[string]string{pin.AnnotationForget: "u"}
			})},
			"delete what a user wrote":          {denied, remove(v.written)},
			"delete all":                        {byRole, removeAll(&appsv1beta1.PersistentPodState{}, client.InNamespace(ns))},
			"change a reservation":              {denied, patch(kept, `{"status":{"ips":"10.0.0.9"}}`)},
			"release it at another time":        {denied, patch(kept, `{"metadata":{"labels":{"limpet.dev/release":"20990102T030406Z"}}}`)},
			"hold it by a finalizer":            {denied, patch(kept, `{"metadata":{"finalizers":["example.com/hold"]}}`)},
			"write reservations":                {byRole, create(shown(ns, "web-0", v.node))},
			"delete pools":                      {byRole, remove(pool(v.node, "net"))},
			"delete all reservations of agents": {byRole, removeAll(&limpetv1alpha1.IPReservation{}, client.InNamespace(ns))},
		},
		"books": {
			"hold up a namespace by one": {denied, create(&limpetv1alpha1.DisruptionBook{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "evil", Finalizers: []string{"example.com/hold"}}})},
			"… by one that is there":     {denied, update(v.book, func(b *limpetv1alpha1.DisruptionBook) { b.Finalizers = []string{"example.com/hold"} })},
			"add a label":                {denied, update(v.book, func(b *limpetv1alpha1.DisruptionBook) { b.Labels = map[string]string{"a": "b"} })},
			"let a ConfigMap own one": {denied, update(v.book, func(b *limpetv1alpha1.DisruptionBook) {
				b.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
			})},
			"make one for a single budget":  {denied, create(&limpetv1alpha1.DisruptionBook{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "6c1d4b9e-0c0e-4f0a-9d55-0d5b8f3f2a11"}})},
			"delete one":                    {byRole, remove(v.book)},
			"delete all":                    {byRole, removeAll(&limpetv1alpha1.DisruptionBook{}, client.InNamespace(ns))},
			"hold up a namespace by a loan": {denied, create(changed(lending(ns, "evil", loan.Loan{Home: "a", Phase: loan.Asked, Epoch: 1}), func(b borrowed) { b.Finalizers = []string{"example.com/hold"} }))},
			"hold up a namespace by a book": {denied, create(&limpetv1alpha1.DisruptionBook{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "evil", Finalizers: []string{loan.Finalizer}}})},
			"… by a loan that is there":     {denied, update(asked, func(b borrowed) { b.Finalizers = []string{"example.com/hold"} })},
			"label a loan":                  {denied, update(asked, func(b borrowed) { b.Labels = map[string]string{"a": "b"} })},
			"let a ConfigMap own a loan": {denied, update(asked, func(b borrowed) {
				b.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
			})},
			"delete all loans": {byRole, removeAll(&limpetv1alpha1.BorrowedAddress{}, client.InNamespace(ns))},
		},
		"events": {
			"create one of another program": {denied, create(changed(ownEvent(ns, "evil"), func(e *eventsv1.Event) { e.ReportingController = "kubelet" }))},
			"change one of another program": {denied, patch(v.event, `{"series":{"count":9,"lastObservedTime":"2026-11-22T00:00:00.000000Z"}}`)},
			"hold up a namespace by one":    {denied, create(changed(ownEvent(ns, "evil"), func(e *eventsv1.Event) { e.Finalizers = []string{"example.com/hold"} }))},
			"… that a pod owns":             {denied, create(changed(ownEvent(ns, "evil"), func(e *eventsv1.Event) { e.OwnerReferences = pods }))},
			"delete one":                    {byRole, remove(v.event)},
			"create one of the core group":  {byRole, create(changed(nodeEvent(v.node.Name), func(e *corev1.Event) { e.Source.Component = controller }))},
		},
		"webhooks": {
			"match every pod": {denied, update(v.mutating, func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].MatchConditions = nil })},
			"send elsewhere": {denied, update(v.mutating, func(m *admissionv1.MutatingWebhookConfiguration) {
				m.Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://evil.example.com")}
			})},
			"send to another service": {denied, update(v.mutating, func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].ClientConfig.Service.Namespace = ns })},
			"change the rules":        {denied, update(v.mutating, func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].Rules[0].Resources = []string{"*"} })},
			"change the namespaces":   {denied, update(v.mutating, func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].NamespaceSelector = nil })},
			"fail where it ignored": {denied, update(v.validating, func(m *admissionv1.ValidatingWebhookConfiguration) {
				m.Webhooks[1].FailurePolicy = new(admissionv1.Fail) // workloads.limpet.dev
			})},
			"add a webhook": {denied, update(v.validating, func(m *admissionv1.ValidatingWebhookConfiguration) {
				m.Webhooks = append(m.Webhooks, another(m.Webhooks[0]))
			})},
			"replace a webhook": {denied, update(v.validating, func(m *admissionv1.ValidatingWebhookConfiguration) { m.Webhooks[0] = another(m.Webhooks[0]) })},
			"remove a webhook":  {denied, update(v.validating, func(m *admissionv1.ValidatingWebhookConfiguration) { m.Webhooks = m.Webhooks[1:] })},
			"let a pod own them": {denied, update(v.validating, func(m *admissionv1.ValidatingWebhookConfiguration) {
				m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "x", UID: "x"}}
			})},
			"let another namespace own": {denied, update(v.validating, func(m *admissionv1.ValidatingWebhookConfiguration) {
				m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: ns, UID: "x"}}
			})},
			"add a label":                 {denied, update(v.validating, func(m *admissionv1.ValidatingWebhookConfiguration) { m.Labels = map[string]string{"a": "b"} })},
			"change those of another":     {byRole, update(v.other, func(m *admissionv1.ValidatingWebhookConfiguration) { m.Labels = map[string]string{"a": "b"} })},
			"create one":                  {byRole, create(&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "evil"}})},
			"delete its own":              {byRole, remove(v.mutating)},
			"patch its own":               {byRole, patch(v.mutating, `{"webhooks":null}`)},
			"delete a policy":             {byRole, remove(&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "limpet-controller-pods"}})},
			"delete a binding":            {byRole, remove(&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "limpet-controller-pods"}})},
			"make itself an admin":        {byRole, create(adminBinding())},
			"get a token of the agent":    {byRole, tokenOf(agent)},
			"get a token of its own":      {byRole, tokenOf(controller)},
			"read secrets of a tenant":    {byRole, list(&corev1.SecretList{}, client.InNamespace(ns))},
			"change the lease of a node":  {byRole, update(leaseOf(t, v.node), func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("x") })},
			"change a node":               {byRole, patch(v.node.Node, `{"spec":{"unschedulable":true}}`)},
			"change a secret of its own":  {byRole, create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "limpet-system", Name: "evil"}})},
			"write the kinds of workload": {byRole, patch(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "limpet-system", Name: "kruise-configuration"}}, `{"data":{"a":"b"}}`)},
		},
		"budgets": {
			"allow more":           {denied, update(v.budget, func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.MaxUnavailable = new(intstr.FromString("100%")) })},
			"change an annotation": {denied, update(v.budget, func(b *policyv1beta1.PodUnavailableBudget) { b.Annotations["owner"] = "thief" })},
			"add an annotation":    {denied, update(v.budget, func(b *policyv1beta1.PodUnavailableBudget) { b.Annotations["limpet.dev/nudged"] = "t" })},
			"add a finalizer":      {denied, update(v.budget, func(b *policyv1beta1.PodUnavailableBudget) { b.Finalizers = []string{"example.com/hold"} })},
			"delete a budget":      {byRole, remove(v.budget)},
			"create a budget":      {denied, create(changed(v.budget, func(b *policyv1beta1.PodUnavailableBudget) { b.Name, b.ResourceVersion = "evil", "" }))},
			"delete all budgets":   {byRole, removeAll(&policyv1beta1.PodUnavailableBudget{}, client.InNamespace(ns))},
		},
		"spreads": {
			"patch its pods": {denied, update(v.spread, func(s *appsv1beta1.WorkloadSpread) {
				s.Spec.Subsets[0].Patch.Raw = []byte(`{"spec":{"hostNetwork":true}}`)
			})},
			"add an annotation":  {denied, update(v.spread, func(s *appsv1beta1.WorkloadSpread) { s.Annotations["limpet.dev/failure-policy"] = "Open" })},
			"remove annotations": {denied, update(v.spread, func(s *appsv1beta1.WorkloadSpread) { s.Annotations = nil })},
			"add a finalizer":    {denied, update(v.spread, func(s *appsv1beta1.WorkloadSpread) { s.Finalizers = []string{"example.com/hold"} })},
			"delete a spread":    {byRole, remove(v.spread)},
			"create a spread":    {byRole, create(changed(v.spread, func(s *appsv1beta1.WorkloadSpread) { s.Name, s.ResourceVersion = "evil", "" }))},
			"delete all spreads": {byRole, removeAll(&appsv1beta1.WorkloadSpread{}, client.InNamespace(ns))},
		},
		"namespaces": {
			"change another label":        {denied, patch(v.namespace, `{"metadata":{"labels":{"owner":"thief"}}}`)},
			"add a label":                 {denied, patch(v.namespace, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`)},
			"… beside its own":            {denied, patch(v.namespace, `{"metadata":{"labels":{"limpet.dev/budgets":"open","pod-security.kubernetes.io/enforce":"privileged"}}}`)},
			"remove a label":              {denied, patch(v.namespace, `{"metadata":{"labels":{"owner":null}}}`)},
			"change another annotation":   {denied, patch(v.namespace, `{"metadata":{"annotations":{"owner":"thief"}}}`)},
			"add an annotation":           {denied, patch(v.namespace, `{"metadata":{"annotations":{"scheduler.alpha.kubernetes.io/node-selector":"a=b"}}}`)},
			"remove all annotations":      {denied, patch(v.namespace, `{"metadata":{"annotations":null}}`)},
			"set a value of its own":      {denied, patch(v.namespace, `{"metadata":{"labels":{"limpet.dev/budgets":"ajar"}}}`)},
			"… of spreads":                {denied, patch(v.namespace, `{"metadata":{"labels":{"limpet.dev/spreads":"ajar"}}}`)},
			"add an owner":                {denied, patch(v.namespace, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"x","uid":"x"}]}}`)},
			"add a finalizer":             {denied, patch(v.namespace, `{"metadata":{"finalizers":["example.com/hold"]}}`)},
			"change the status":           {byRole, patchStatus(v.namespace, `{"status":{"phase":"Terminating"}}`)},
			"delete a namespace":          {byRole, remove(v.namespace)},
			"create a namespace":          {byRole, create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "evil"}})},
			"update a namespace as whole": {byRole, update(v.namespace, func(n *corev1.Namespace) { n.Labels["owner"] = "thief" })},
		},
		"crds": {
			"serve another version":      {denied, patch(v.crd, `{"spec":{"names":{"shortNames":["x"]}}}`)},
			"convert elsewhere":          {denied, patch(v.crd, `{"spec":{"conversion":{"webhook":{"clientConfig":{"url":"https://evil.example.com"}}}}}`)},
			"convert at another service": {denied, patch(v.crd, `{"spec":{"conversion":`+conversion("evil")+`}}`)},
			"stop the conversion":        {denied, patch(v.crd, `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)},
			"add an annotation":          {denied, patch(v.crd, `{"metadata":{"annotations":{"a":"b"}}}`)},
			"add a finalizer":            {denied, patch(v.crd, `{"metadata":{"finalizers":["example.com/hold"]}}`)},
			"say that it is not served":  {denied, patchStatus(v.crd, `{"status":{"conditions":[]}}`)},
			"take another name":          {denied, patchStatus(v.crd, `{"status":{"acceptedNames":{"plural":"pods","kind":"Pod"}}}`)},
			"change the CRD of another":  {byRole, patch(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "ipreservations.limpet.dev"}}, `{"spec":{"names":{"shortNames":["x"]}}}`)},
			"delete the CRD":             {byRole, remove(v.crd)},
			"update the CRD":             {byRole, update(v.crd, func(c *apiextensionsv1.CustomResourceDefinition) { c.Labels = map[string]string{"a": "b"} })},
			"list the CRDs of the world": {byRole, listAll()},
		},
	} {
		for name, tc := range list {
			t.Run(group+"/"+name, func(t *testing.T) { refused(t, thief, tc.by, tc.do) })
		}
	}
}

// The controller can do all that it does.
func TestTheTokenOfTheControllerServesTheController(t *testing.T) {
	v := newVictims(t)
	c := env.As(t, env.Token(t, controller, v.node.Name))
	ns := v.running.Namespace
	var namespace corev1.Namespace
	env.Read(t, client.ObjectKey{Name: "limpet-system"}, &namespace)
	made, event := generatedState(ns, "made"), ownEvent(ns, "ours")
	asked, kept := lending(ns, "web-0", loan.Loan{Home: v.node.Name, Phase: loan.Asked, Epoch: 1}), shown(ns, "web-0", v.node)
	kept.Status.State, kept.Status.Until = limpetv1alpha1.IPReserved, &metav1.Time{Time: time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)}
	env.Create(t, kept)
	kruises := generatedState(ns, "kruises")
	kruises.Labels = nil
	env.Create(t, kruises)
	const stamped = `{"owner":null,"example.com/touched":"now","policies.kyverno.io/last-applied-patches":"x"}`
	uid := func(o client.Object) string { return `"metadata":{"uid":"` + string(o.GetUID()) + `"}` }
	owner := testenv.AStatefulSet("served", 1).In(ns)
	owner.UID = "served"
	served := testenv.APod("served-0").In(ns).On(v.node.Name).OwnedBy(owner.StatefulSet).With(policyv1beta1.AnnotationDrainFirst, "1s").Ready().Pod
	hooked := testenv.APod("served-1").In(ns).On(v.node.Name).OwnedBy(owner.StatefulSet).With(policyv1beta1.AnnotationLifecycle, "x").Ready().Pod
	env.Create(t, served, hooked)
	takes := func(pod *corev1.Pod) request {
		return func(ctx context.Context, c client.Client) error {
			return c.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType,
				[]byte(`{`+uid(pod)+`,"status":{"conditions":[{"type":"limpet.dev/in-service","status":"False","reason":"DeletionFollows"}]}}`)))
		}
	}
	steps := []struct {
		what string
		do   request
	}{
		{"take a pod out of service", takes(served)},
		{"delete it for its StatefulSet", remove(served)},
		{"take a pod with handlers out of service", takes(hooked)},
		{"delete that for its StatefulSet", remove(hooked)},
		{"nominate a node that a policy of others stamps", patchStatus(v.gated, `{"metadata":{"uid":"`+string(v.gated.UID)+`","annotations":{"owner":"policy"}},"status":{"nominatedNodeName":"`+v.node.Name+`"}}`)},
		{"withdraw a nomination", patchStatus(v.gated, `{`+uid(v.gated)+`,"status":{"nominatedNodeName":""}}`)},
		{"open its gate, which a policy of others stamps", func(ctx context.Context, c client.Client) error {
			return c.Patch(ctx, v.gated.DeepCopy(), client.RawPatch(types.StrategicMergePatchType,
				[]byte(`{"metadata":{"uid":"`+string(v.gated.UID)+`","annotations":`+stamped+`},"spec":{"schedulingGates":[{"$patch":"delete","name":"limpet.dev/pin"}]}}`)))
		}},
		{"delete a pod that waits", func(ctx context.Context, c client.Client) error {
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(v.waiting), v.waiting); err != nil {
				return err
			}
			return c.Delete(ctx, v.waiting.DeepCopy(), client.Preconditions{UID: &v.waiting.UID, ResourceVersion: &v.waiting.ResourceVersion})
		}},
		{"delete a pod that its node has not started", func(ctx context.Context, c client.Client) error {
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(v.unstarted), v.unstarted); err != nil {
				return err
			}
			return c.Delete(ctx, v.unstarted.DeepCopy(), client.GracePeriodSeconds(0),
				client.Preconditions{UID: &v.unstarted.UID, ResourceVersion: &v.unstarted.ResourceVersion})
		}},
		{"wake a StatefulSet", patch(v.set, `{"metadata":{"annotations":{"limpet.dev/nudged":"2026-11-22T00:00:00Z"}}}`)},
		{"wake a StatefulSet that a policy of others stamps", patch(v.set, `{"metadata":{"annotations":{"limpet.dev/nudged":"2026-11-22T00:01:00Z","owner":null,"policies.kyverno.io/last-applied-patches":"x"},"labels":{"team":"a"}}}`)},
		{"wake a workload of a named kind that a policy stamps", patch(v.game, `{"metadata":{"annotations":{"limpet.dev/nudged":"2026-11-22T00:01:00Z","owner":"policy"},"labels":{"team":"a"}}}`)},
		{"wake a ReplicaSet that a policy stamps", patch(v.replicas, `{"metadata":{"annotations":{"limpet.dev/nudged":"2026-11-22T00:01:00Z","example.com/touched":"now"},"labels":{"team":"a"}}}`)},
		{"wake a ReplicaSet", patch(v.replicas, `{"metadata":{"annotations":{"limpet.dev/nudged":"2026-11-22T00:00:00Z"}}}`)},
		{"wake a ReplicationController", patch(v.oldReplicas, `{"metadata":{"annotations":{"limpet.dev/nudged":"2026-11-22T00:00:00Z"}}}`)},
		{"wake a DaemonSet", patch(v.daemons, `{"metadata":{"annotations":{"limpet.dev/nudged":"2026-11-22T00:00:00Z"}}}`)},
		{"wake a Job", patch(v.job, `{"metadata":{"annotations":{"limpet.dev/nudged":"2026-11-22T00:00:00Z"}}}`)},
		{"wake a workload of a named kind", patch(v.game, `{"metadata":{"annotations":{"limpet.dev/nudged":"2026-11-22T00:00:00Z"}}}`)},
		{"wake it again", patch(v.game, `{"metadata":{"annotations":{"limpet.dev/nudged":"2026-11-22T01:00:00Z"}}}`)},
		{"generate a state", create(made)},
		{"follow the annotations", update(made, func(s *appsv1beta1.PersistentPodState) {
			s.Spec.RequiredPersistentTopology.Keys = []string{"zone"}
			s.Annotations = map[string]string{pin.AnnotationReleaseAfter: "5m", pin.AnnotationCarried: pin.AnnotationReleaseAfter}
		})},
		{"adopt a state of OpenKruise", update(kruises, func(s *appsv1beta1.PersistentPodState) { s.Labels = made.Labels })},
		{"record", patchStatus(v.written, `{"status":{"observedGeneration":1,"podStates":{"written-0":{"nodeName":"n1"}}}}`)},
		{"store a state again", update(v.written, func(*appsv1beta1.PersistentPodState) {})},
		{"delete a generated state", remove(made)},
		{"store a budget again", update(v.budget, func(*policyv1beta1.PodUnavailableBudget) {})},
		{"store a spread again", update(v.spread, func(*appsv1beta1.WorkloadSpread) {})},
		{"list spreads", list(&appsv1beta1.WorkloadSpreadList{})},
		{"count a spread", patchStatus(v.spread, `{"status":{"observedGeneration":1,"subsetStatuses":[{"name":"a","replicas":1,"missingReplicas":-1}]}}`)},
		{"list budgets", list(&policyv1beta1.PodUnavailableBudgetList{})},
		{"read a namespace", get(v.namespace)},
		{"label a namespace with budgets", patch(v.namespace, `{"metadata":{"labels":{"limpet.dev/budgets":"open"}}}`)},
		{"close a namespace", patch(v.namespace, `{"metadata":{"labels":{"limpet.dev/budgets":"closed"}}}`)},
		{"begin to remove the label", patch(v.namespace, `{"metadata":{"annotations":{"limpet.dev/budgets-idle-since":"2026-11-22T00:00:00Z"}}}`)},
		{"remove the label", patch(v.namespace, `{"metadata":{"labels":{"limpet.dev/budgets":null},"annotations":{"limpet.dev/budgets-idle-since":null}}}`)},
		{"label a namespace with spreads", patch(v.namespace, `{"metadata":{"labels":{"limpet.dev/spreads":"closed"}}}`)},
		{"begin to remove that label", patch(v.namespace, `{"metadata":{"annotations":{"limpet.dev/spreads-idle-since":"2026-11-22T00:00:00Z"}}}`)},
		{"remove that label", patch(v.namespace, `{"metadata":{"labels":{"limpet.dev/spreads":null},"annotations":{"limpet.dev/spreads-idle-since":null}}}`)},
		{"report an event", create(event)},
		{"count an event", patch(event, `{"series":{"count":2,"lastObservedTime":"2026-11-22T00:00:00.000000Z"}}`)},
		{"write the authority of the mutating webhooks", update(v.mutating, func(m *admissionv1.MutatingWebhookConfiguration) {
			for i := range m.Webhooks {
				m.Webhooks[i].ClientConfig.CABundle = env.Config.CAData
			}
		})},
		{"write the authority of the validating webhooks", update(v.validating, func(m *admissionv1.ValidatingWebhookConfiguration) {
			for i := range m.Webhooks {
				m.Webhooks[i].ClientConfig.CABundle = env.Config.CAData
			}
		})},
		{"let the namespace own the webhooks", update(v.validating, func(m *admissionv1.ValidatingWebhookConfiguration) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "limpet-system", UID: namespace.UID}}
		})},
		{"write the authority of the conversion", patch(v.crd, authority(t))},
		{"… of budgets", patch(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: testenv.ConvertedBudgets}}, authority(t))},
		{"… of spreads", patch(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: testenv.ConvertedSpreads}}, authority(t))},
		{"convert at its own service", patch(v.crd, `{"spec":{"conversion":`+conversion("limpet-controller-conversion")+`}}`)},
		{"write the stored versions", patchStatus(v.crd, `{"status":{"storedVersions":["v1beta1"]}}`)},
		{"write its certificate", update(v.secret, func(s *corev1.Secret) { s.Data = map[string][]byte{"tls.crt": []byte("x")} })},
		{"list secrets of its namespace", list(&corev1.SecretList{}, client.InNamespace("limpet-system"))},
		{"list pods", list(&corev1.PodList{})},
		{"list nodes", list(&corev1.NodeList{})},
		{"list reservations", list(&limpetv1alpha1.IPReservationList{})},
		{"list pools", list(&limpetv1alpha1.NodeIPPoolList{})},
		{"list deployments", list(&appsv1.DeploymentList{})},
		{"list replica sets", list(&appsv1.ReplicaSetList{})},
		{"list daemon sets", list(&appsv1.DaemonSetList{})},
		{"list jobs", list(&batchv1.JobList{})},
		{"ask what a user may do", create(&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "jane", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Verb: "update", Group: "policy.kruise.io", Resource: "podunavailablebudgets"},
		}})},
		{"list disruption budgets", list(&policyv1.PodDisruptionBudgetList{})},
		{"list books", list(&limpetv1alpha1.DisruptionBookList{})},
		{"write a book", create(&limpetv1alpha1.DisruptionBook{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "new", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps.kruise.io/v1beta1", Kind: "WorkloadSpread", Name: "web", UID: "v"},
		}}})},
		{"write it again", update(v.book, func(b *limpetv1alpha1.DisruptionBook) { b.Seen = "7" })},
		{"let a pod keep it", update(v.book, func(b *limpetv1alpha1.DisruptionBook) {
			b.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "x", UID: "x"}}
		})},
		{"release a reservation", patch(kept, `{"metadata":{"labels":{"limpet.dev/release":"20990102T030405Z"}}}`)},
		{"list loans", list(&limpetv1alpha1.BorrowedAddressList{})},
		{"ask for a loan", create(asked)},
		{"name the borrower of a loan", update(asked, to(func(s *limpetv1alpha1.BorrowedAddressStatus) {
			s.Phase, s.Borrower, s.Epoch = "Lent", v.node.Name, 2
		}))},
		{"remove a loan", remove(asked)},
		{"read the lease of a node", get(leaseOf(t, v.node))},
	}
	for _, step := range steps {
		t.Run(step.what, func(t *testing.T) { allowed(t, c, step.do) })
	}
	env.RemoveAtEnd(t, made)
	env.RemoveAtEnd(t, event)
}

// another returns a webhook under another name.
func another(w admissionv1.ValidatingWebhook) admissionv1.ValidatingWebhook {
	w.Name = "evil.example.com"
	return w
}

func authority(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"spec": map[string]any{"conversion": map[string]any{
		"webhook": map[string]any{"clientConfig": map[string]any{"caBundle": env.Config.CAData}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// conversion is the conversion of a CRD by a service of limpet-system.
func conversion(service string) string {
	return `{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":null,` +
		`"service":{"namespace":"limpet-system","name":"` + service + `","path":"/convert","port":443}}}}`
}

// podOn returns the pod of a token that is bound to a node.
func podOn(t *testing.T, node string) *corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := env.Client.List(t.Context(), &pods, client.InNamespace("limpet-system"), client.MatchingFields{"spec.nodeName": node}); err != nil || len(pods.Items) != 1 {
		t.Fatalf("list pods on node %s: %d, %v", node, len(pods.Items), err)
	}
	return &pods.Items[0]
}

func leaseOf(t *testing.T, node testenv.Node) *coordinationv1.Lease {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node.Name}}
	env.Create(t, lease)
	return lease
}

func adminBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "evil"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "limpet-system", Name: controller}},
	}
}

func subresource(o client.Object, name string, body client.Object) request {
	return func(ctx context.Context, c client.Client) error {
		return c.SubResource(name).Create(ctx, o.DeepCopyObject().(client.Object), body.DeepCopyObject().(client.Object))
	}
}

func patchPart(o client.Object, name, text string) request {
	return func(ctx context.Context, c client.Client) error {
		return c.SubResource(name).Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(text)))
	}
}

func patchJSON(o client.Object, text string) request {
	return func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.JSONPatchType, []byte(text)))
	}
}

// listAll lists CRDs without a name.
func listAll() request { return list(&apiextensionsv1.CustomResourceDefinitionList{}) }
