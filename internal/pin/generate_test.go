package pin_test

import (
	"cmp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

func TestGenerate(t *testing.T) {
	kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	plain := testenv.AStatefulSet("web", 1)
	plain.UID = "new"
	asks := testenv.StatefulSet{StatefulSet: plain.DeepCopy()}.With(appsv1beta1.AnnotationAutoGenerate, "true")
	full := testenv.StatefulSet{StatefulSet: asks.DeepCopy()}.
		With(appsv1beta1.AnnotationPreferredTopology, hostname+", "+zone+",").
		With(appsv1beta1.AnnotationRequiredTopology, zone).
		With(appsv1beta1.AnnotationPodAnnotations, "a")
	bad := testenv.StatefulSet{StatefulSet: asks.DeepCopy()}.With(appsv1beta1.AnnotationPreferredTopology, "not a key")
	many := testenv.StatefulSet{StatefulSet: asks.DeepCopy()}.With(appsv1beta1.AnnotationPreferredTopology, strings.Join(keys(17), ","))
	deleted := testenv.StatefulSet{StatefulSet: plain.DeepCopy()}
	deleted.DeletionTimestamp = &metav1.Time{Time: now}

	foreign := *testenv.APersistentPodState("web").Prefers(5, hostname).PersistentPodState
	own := *foreign.DeepCopy()
	own.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(plain, kind)}
	own.Spec.PersistentPodStateRetentionPolicy = appsv1beta1.RetainWhenDeleted
	own.Labels = map[string]string{pin.LabelGenerated: "true"}
	charts := *own.DeepCopy()
	charts.Name, charts.Labels = "web-place", nil
	namesake := *charts.DeepCopy()
	namesake.Name = "web"
	before := *testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
	before.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(plain, kind)}
	before.OwnerReferences[0].BlockOwnerDeletion = nil
	operators := *before.DeepCopy()
	operators.OwnerReferences[0].BlockOwnerDeletion = new(true)
	orphan := *foreign.DeepCopy()
	orphan.Labels = map[string]string{pin.LabelGenerated: "true"}

	kruises := *orphan.DeepCopy()
	kruises.Spec.TargetReference.APIVersion = "apps.kruise.io/v1beta1"

	current := *orphan.DeepCopy()
	current.Spec = testenv.APersistentPodState("web").Prefers(100, hostname, zone).Requires(zone).Spec
	current.Spec.PersistentPodAnnotations = []appsv1beta1.PersistentPodAnnotation{{Key: "a"}}
	inherited := *orphan.DeepCopy()
	gone := plain.DeepCopy()
	gone.UID = "old"
	inherited.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(gone, kind)}
	others := *orphan.DeepCopy()
	gone.Name = "other"
	others.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(gone, kind)}

	made := testenv.APersistentPodState("web").Prefers(100, hostname, zone).Requires(zone).Spec
	made.PersistentPodAnnotations = []appsv1beta1.PersistentPodAnnotation{{Key: "a"}}
	kept := *made.DeepCopy()
	kept.PersistentPodStateRetentionPolicy = appsv1beta1.RetainWhenDeleted

	cases := map[string]struct {
		set        testenv.StatefulSet
		existing   []appsv1beta1.PersistentPodState
		wantAction pin.Action
		wantReason string
		wantSpec   *appsv1beta1.PersistentPodStateSpec
	}{
		"nothing asked, nothing made":                       {set: plain, wantReason: pin.ReasonNotAsked},
		"asked without a topology":                          {set: asks, wantReason: pin.ReasonNoKeys},
		"asked with a key that cannot be":                   {set: bad, wantReason: pin.ReasonBadKeys},
		"asked with more keys than can be":                  {set: many, wantReason: pin.ReasonBadKeys},
		"asked, so made":                                    {set: full, wantAction: pin.Create, wantReason: pin.ReasonGenerated, wantSpec: &made},
		"annotations changed, hand-set policy stays":        {set: full, existing: []appsv1beta1.PersistentPodState{own}, wantAction: pin.Update, wantReason: pin.ReasonFollowed, wantSpec: &kept},
		"left behind by a predecessor, so adopted":          {set: full, existing: []appsv1beta1.PersistentPodState{orphan}, wantAction: pin.Update, wantReason: pin.ReasonFollowed, wantSpec: &made},
		"without an owner, so up to date":                   {set: full, existing: []appsv1beta1.PersistentPodState{current}, wantReason: pin.ReasonUpToDate},
		"left behind by another kind, so left":              {set: full, existing: []appsv1beta1.PersistentPodState{kruises}, wantReason: pin.ReasonForeign},
		"still owned by a predecessor, so adopted":          {set: full, existing: []appsv1beta1.PersistentPodState{inherited}, wantAction: pin.Update, wantReason: pin.ReasonFollowed, wantSpec: &made},
		"owned by another workload, so left":                {set: full, existing: []appsv1beta1.PersistentPodState{others}, wantReason: pin.ReasonForeign},
		"annotations gone, so removed":                      {set: plain, existing: []appsv1beta1.PersistentPodState{own}, wantAction: pin.Delete, wantReason: pin.ReasonWithdrawn},
		"topology gone, so removed":                         {set: asks, existing: []appsv1beta1.PersistentPodState{own}, wantAction: pin.Delete, wantReason: pin.ReasonWithdrawn},
		"a chart's, which the set owns, is not removed":     {set: plain, existing: []appsv1beta1.PersistentPodState{charts}, wantReason: pin.ReasonNotAsked},
		"a chart's, which the set owns, is not overwritten": {set: full, existing: []appsv1beta1.PersistentPodState{charts}, wantReason: pin.ReasonForeign},
		"nor one of the set's name":                         {set: full, existing: []appsv1beta1.PersistentPodState{namesake}, wantReason: pin.ReasonForeign},
		"nor one of the set's name without a topology":      {set: asks, existing: []appsv1beta1.PersistentPodState{namesake}, wantReason: pin.ReasonNoKeys},
		"an operator's of the generated shape is left":      {set: full, existing: []appsv1beta1.PersistentPodState{operators}, wantReason: pin.ReasonForeign},
		"OpenKruise's, so adopted":                          {set: full, existing: []appsv1beta1.PersistentPodState{before}, wantAction: pin.Update, wantReason: pin.ReasonFollowed, wantSpec: &made},
		"OpenKruise's is not removed unasked":               {set: plain, existing: []appsv1beta1.PersistentPodState{before}, wantReason: pin.ReasonNotAsked},
		"somebody else's is not overwritten":                {set: full, existing: []appsv1beta1.PersistentPodState{foreign}, wantReason: pin.ReasonForeign},
		"somebody else's is not removed":                    {set: plain, existing: []appsv1beta1.PersistentPodState{foreign}, wantReason: pin.ReasonNotAsked},
		"that of a workload in deletion is the recorder's":  {set: deleted, existing: []appsv1beta1.PersistentPodState{own}, wantReason: pin.ReasonNotAsked},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := pin.Generate(pin.GenerateInput{Workload: tc.set.StatefulSet, Kind: kind, Existing: tc.existing})
			if got.Action != tc.wantAction || got.Reason != tc.wantReason {
				t.Fatalf("got action %d, %s (%s), want %d, %s", got.Action, got.Reason, got.Message, tc.wantAction, tc.wantReason)
			}
			if tc.wantSpec == nil {
				return
			}
			if diff := gocmp.Diff(*tc.wantSpec, got.Object.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if owners := got.Object.OwnerReferences; len(owners) > 0 || got.Object.Labels[pin.LabelGenerated] != "true" {
				t.Errorf("labels %v, owners %v: want the mark, and no owner with which the records would go", got.Object.Labels, owners)
			}
			again := pin.Generate(pin.GenerateInput{
				Workload: tc.set.StatefulSet, Kind: kind, Existing: []appsv1beta1.PersistentPodState{*got.Object},
			})
			if again.Action != pin.Keep {
				t.Errorf("a second decision is %s, want nothing to do", again.Reason)
			}
		})
	}
}

// One annotation in one of three places asks for a PersistentPodState. The nearest counts, and OpenKruise's go first.
func TestGenerateFromOneWord(t *testing.T) {
	kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	home, inZone := testenv.APersistentPodState("web").Prefers(100, hostname), testenv.APersistentPodState("web").Requires(zone)
	byHand := *testenv.APersistentPodState("web-place").Prefers(5, hostname).PersistentPodState
	byHand.Spec.TargetReference.Name = "web"
	namesake := *testenv.APersistentPodState("web").Prefers(5, hostname).PersistentPodState
	namesake.Spec.TargetReference.Name = "other"
	generated := *home.DeepCopy()
	generated.Labels, generated.Annotations = map[string]string{pin.LabelGenerated: "true"}, annotations{pin.AnnotationKeepFrom: "Namespace"}
	changed := *generated.DeepCopy()
	changed.Spec = inZone.Spec
	kruises := *home.DeepCopy()
	kruises.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", Controller: new(true)}}
	cases := map[string]struct {
		set, template, namespace annotations
		existing                 []appsv1beta1.PersistentPodState
		want                     *testenv.PersistentPodState
		wantReason               string
	}{
		"on the workload":                      {set: annotations{keep: "10m"}, want: &home},
		"on the template":                      {template: annotations{keep: "10m"}, want: &home},
		"on the namespace":                     {namespace: annotations{keep: "10m"}, want: &home},
		"not on the workload":                  {set: annotations{keep: "0"}, namespace: annotations{keep: "10m"}},
		"not on the template":                  {template: annotations{keep: "0"}, set: annotations{keep: "5m"}, namespace: annotations{keep: "10m"}},
		"a nearer value that is none":          {set: annotations{keep: "ten"}, namespace: annotations{keep: "10m"}, wantReason: pin.ReasonBadKeep},
		"a wrong value, so the object stays":   {namespace: annotations{keep: "ten"}, existing: []appsv1beta1.PersistentPodState{generated}, wantReason: pin.ReasonBadKeep},
		"a user's comes, so the object goes":   {namespace: annotations{keep: "10m"}, existing: []appsv1beta1.PersistentPodState{byHand, generated}, wantReason: pin.ReasonWithdrawn},
		"a user changed it, so it stays":       {namespace: annotations{keep: "10m"}, existing: []appsv1beta1.PersistentPodState{changed}, wantReason: pin.ReasonUpToDate},
		"… also when nothing is asked":         {existing: []appsv1beta1.PersistentPodState{changed}, wantReason: pin.ReasonUpToDate},
		"OpenKruise's object is not adopted":   {namespace: annotations{keep: "10m"}, existing: []appsv1beta1.PersistentPodState{kruises}, wantReason: pin.ReasonNotAsked},
		"with a topology":                      {set: annotations{requires: zone}, namespace: annotations{keep: "10m"}, want: &inZone},
		"with OpenKruise's word":               {set: annotations{auto: "true", requires: zone, keep: "10m"}, want: &inZone},
		"with it, and no topology":             {set: annotations{auto: "true", keep: "10m"}, want: &home},
		"OpenKruise's word says not":           {set: annotations{auto: "false", keep: "10m"}},
		"an object made by hand says where":    {set: annotations{keep: "10m"}, existing: []appsv1beta1.PersistentPodState{byHand}},
		"an object of the name in the way":     {set: annotations{keep: "10m"}, existing: []appsv1beta1.PersistentPodState{namesake}, wantReason: pin.ReasonForeign},
		"taken away, so the object goes":       {existing: []appsv1beta1.PersistentPodState{generated}, wantReason: pin.ReasonWithdrawn},
		"still asked for, so the object stays": {namespace: annotations{keep: "10m"}, existing: []appsv1beta1.PersistentPodState{generated}, wantReason: pin.ReasonUpToDate},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := testenv.AStatefulSet("web", 1)
			set.Annotations = tc.set
			got := pin.Generate(pin.GenerateInput{Workload: set.StatefulSet, Kind: kind, Existing: tc.existing, Template: tc.template, Namespace: tc.namespace})
			want := cmp.Or(tc.wantReason, pin.ReasonNotAsked)
			if tc.want != nil {
				want = pin.ReasonGenerated
			}
			if got.Reason != want {
				t.Fatalf("got %s (%s), want %s", got.Reason, got.Message, want)
			}
			if tc.want != nil {
				if diff := gocmp.Diff(tc.want.Spec, got.Object.Spec); diff != "" {
					t.Errorf("spec (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// The annotations about the release and the return of pods may be on the workload, which is in its user's repository.
// The generated object follows them, and keeps those that a user has set on it.
func TestGenerateCarriesAnnotationsOver(t *testing.T) {
	kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	set := func(annotations ...string) testenv.StatefulSet {
		s := testenv.AStatefulSet("web", 1).With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationRequiredTopology, hostname)
		s.UID = "u"
		for i := 0; i < len(annotations); i += 2 {
			s = s.With(annotations[i], annotations[i+1])
		}
		return s
	}
	follow := func(s testenv.StatefulSet, old ...appsv1beta1.PersistentPodState) pin.Generation {
		return pin.Generate(pin.GenerateInput{Workload: s.StatefulSet, Kind: kind, Existing: old})
	}
	made := follow(set(pin.AnnotationLeaveAfter, "5m", pin.AnnotationLeaveOn, "deleted"))
	want := map[string]string{
		pin.AnnotationLeaveAfter: "5m", pin.AnnotationLeaveOn: "deleted",
		pin.AnnotationCarried: pin.AnnotationLeaveAfter + "," + pin.AnnotationLeaveOn,
	}
	if diff := gocmp.Diff(want, made.Object.Annotations); diff != "" {
		t.Fatalf("annotations (-want +got):\n%s", diff)
	}
	metav1.SetMetaDataAnnotation(&made.Object.ObjectMeta, pin.AnnotationReturnAfter, "1h") // by hand
	metav1.SetMetaDataAnnotation(&made.Object.ObjectMeta, pin.AnnotationForget, "u")
	if same := follow(set(pin.AnnotationLeaveAfter, "5m", pin.AnnotationLeaveOn, "deleted"), *made.Object); same.Action != pin.Keep {
		t.Errorf("what a user set is changed: %+v", same.Object.Annotations)
	}
	changed := follow(set(pin.AnnotationLeaveAfter, "6m"), *made.Object)
	want = map[string]string{
		pin.AnnotationLeaveAfter: "6m", pin.AnnotationCarried: pin.AnnotationLeaveAfter, pin.AnnotationReturnAfter: "1h", pin.AnnotationForget: "u",
	}
	if diff := gocmp.Diff(want, changed.Object.Annotations); diff != "" || changed.Action != pin.Update {
		t.Errorf("annotations after a change (-want +got):\n%s", diff)
	}
	gone := follow(set(), *changed.Object)
	want = map[string]string{pin.AnnotationReturnAfter: "1h", pin.AnnotationForget: "u"}
	if diff := gocmp.Diff(want, gone.Object.Annotations); diff != "" {
		t.Errorf("annotations when those of the workload are gone (-want +got):\n%s", diff)
	}
	wrong := follow(set(pin.AnnotationLeaveAfter, "soon"), *made.Object)
	if wrong.Action != pin.Keep || wrong.Reason != pin.ReasonBadKeys || !strings.Contains(wrong.Message, pin.AnnotationLeaveAfter) {
		t.Errorf("of a wrong value: %+v, want nothing changed, and its name told", wrong)
	}
}
