package pin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Action is what becomes of the PersistentPodState of a workload.
type Action int

const (
	// Keep means that nothing is written.
	Keep Action = iota
	// Create means that the Generation's object is made.
	Create
	// Update means that the Generation's object replaces the one of its name.
	Update
	// Delete means that the Generation's object is removed.
	Delete
)

// Reasons of a Generation; they are also the reasons of the event on the workload.
const (
	ReasonNotAsked    = "NotAsked"                   // the workload has none of the annotations
	ReasonNoKeys      = "NoPersistentTopology"       // generation is asked for, but no topology named
	ReasonBadKeys     = "InvalidPersistentTopology"  // a named key is not one that a label can have
	ReasonBadKeep     = "InvalidKeep"                // limpet.dev/keep is neither a duration nor a number of minutes
	ReasonKeepRefused = "KeepRefused"                // pods do not take what is asked for them
	ReasonForeign     = "PersistentPodStateNotOurs"  // an object of that name or target was not generated for the workload
	ReasonUpToDate    = "UpToDate"                   // the object is as the annotations say
	ReasonGenerated   = "PersistentPodStateMade"     // the object was made or adopted
	ReasonFollowed    = "PersistentPodStateFollowed" // the object follows changed annotations
	ReasonWithdrawn   = "PersistentPodStateRemoved"  // the annotations are gone, and so is the object
)

// AnnotationCarried on a generated object names the annotations that the object has from its workload. Others are a
// user's.
const AnnotationCarried = "limpet.dev/from-workload"

// LabelGenerated marks generated objects. An object that was left behind when its owner was
// deleted is recognized by it when the owner is re-created.
const LabelGenerated = "limpet.dev/generated"

// generatedWeight is the weight of the one preferred term of generated objects.
const generatedWeight = 100

// GenerateInput are the facts from which a Generation is decided.
type GenerateInput struct {
	Workload metav1.Object
	Kind     schema.GroupVersionKind
	// Template and Namespace are the annotations of the pods and of the namespace of the workload.
	Template, Namespace map[string]string
	// Existing PersistentPodStates of the workload's name or with it as their target.
	Existing []appsv1beta1.PersistentPodState
}

// Generation says what to do with the PersistentPodState of a workload.
type Generation struct {
	Action  Action
	Reason  string
	Message string
	Object  *appsv1beta1.PersistentPodState
}

// Generate decides which PersistentPodState a workload's annotations ask for. Objects that
// were not generated for this workload are never changed.
func Generate(in GenerateInput) Generation {
	auto, named := in.Workload.GetAnnotations()[appsv1beta1.AnnotationAutoGenerate]
	keep := in.keep()
	kept := !named && keep.Value != "" && !workload.IsLeftOut(in.Workload.GetNamespace())
	asked := (auto == "true" || kept) && in.Workload.GetDeletionTimestamp() == nil
	want := specOf(in)
	hasKeys := want.RequiredPersistentTopology != nil || len(want.PreferredPersistentTopology) > 0

	mine := slices.IndexFunc(in.Existing, func(s appsv1beta1.PersistentPodState) bool { return ours(in, &s) })
	if !named && keep.Problem != "" {
		return Generation{Reason: ReasonBadKeep, Message: keep.Problem}
	}
	if !named && mine >= 0 && in.edited(&in.Existing[mine]) {
		return Generation{Reason: ReasonUpToDate, Message: "a user has changed PersistentPodState " + in.Existing[mine].Name}
	}
	if kept && slices.ContainsFunc(in.Existing, in.users) {
		return in.giveWay(mine)
	}
	switch {
	case mine >= 0 && !asked && in.Workload.GetDeletionTimestamp() == nil:
		return Generation{Delete, ReasonWithdrawn, "the annotation that asked for it is gone", &in.Existing[mine]}
	case mine >= 0 && asked && !hasKeys:
		return Generation{Delete, ReasonWithdrawn, "no topology is named any more", &in.Existing[mine]}
	case !asked:
		return Generation{Reason: ReasonNotAsked, Message: "no PersistentPodState is asked for"}
	case !hasKeys:
		return Generation{Reason: ReasonNoKeys, Message: missingTopology}
	}
	if errs := validateGenerated(in, want); len(errs) > 0 {
		return Generation{Reason: ReasonBadKeys, Message: errs.ToAggregate().Error()}
	}
	if mine < 0 && !kept { // what has no mark is adopted while it is asked for, and never removed
		mine = slices.IndexFunc(in.Existing, func(s appsv1beta1.PersistentPodState) bool { return kruises(in, &s) })
	}
	switch {
	case mine >= 0:
		return follow(in, &in.Existing[mine], want)
	case len(in.Existing) > 0:
		return Generation{Reason: ReasonForeign, Message: fmt.Sprintf(
			"PersistentPodState %s was not generated for this workload and is left alone", in.Existing[0].Name)}
	}
	made := &appsv1beta1.PersistentPodState{
		ObjectMeta: metav1.ObjectMeta{Name: in.Workload.GetName(), Namespace: in.Workload.GetNamespace()},
		Spec:       want,
	}
	claim(in, made)
	return Generation{Create, ReasonGenerated, "made PersistentPodState " + made.Name, made}
}

// Requested returns the PersistentPodState that is about to be generated for the workload of a pod; nil for none. The pod has
// the annotations of its template.
func Requested(pod *corev1.Pod, owner metav1.Object, kind schema.GroupVersionKind, namespace map[string]string) *appsv1beta1.PersistentPodState {
	return Generate(GenerateInput{Workload: owner, Kind: kind, Template: pod.Annotations, Namespace: namespace}).Object
}

// giveWay leaves the workload to the PersistentPodState of a user.
func (in GenerateInput) giveWay(mine int) Generation {
	const why = "a PersistentPodState that was not generated has the workload as its target"
	if mine >= 0 && yields(&in.Existing[mine]) {
		return Generation{Delete, ReasonWithdrawn, why, &in.Existing[mine]}
	}
	return Generation{Reason: ReasonNotAsked, Message: why}
}

// edited reports whether a user wrote another topology into an object for which limpet.dev/keep asked.
func (in GenerateInput) edited(s *appsv1beta1.PersistentPodState) bool {
	return yields(s) && len(TopologyKeys(in.Workload.GetAnnotations())) == 0 &&
		(s.Spec.RequiredPersistentTopology != nil || !equality.Semantic.DeepEqual(s.Spec.PreferredPersistentTopology, hostname()))
}

// users reports whether an object that was not generated has the workload as its target.
func (in GenerateInput) users(s appsv1beta1.PersistentPodState) bool {
	return in.isTarget(s) && !ours(in, &s)
}

// isTarget reports whether an object has the workload as its target.
func (in GenerateInput) isTarget(s appsv1beta1.PersistentPodState) bool {
	return TargetOf(&s) == workload.NewTarget(in.Kind.GroupVersion().String(), in.Kind.Kind, in.Workload.GetName())
}

// validateGenerated finds the keys that the API would refuse in the generated object.
func validateGenerated(in GenerateInput, spec appsv1beta1.PersistentPodStateSpec) field.ErrorList {
	s := &appsv1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Annotations: in.Workload.GetAnnotations()}, Spec: spec}
	return Validate(s, nil, workload.Kinds{Named: []schema.GroupVersionKind{in.Kind}})
}

// carry gives the object the annotations of the workload, and takes those away that the workload no longer has.
func carry(in GenerateInput, s *appsv1beta1.PersistentPodState) {
	annotations := in.Workload.GetAnnotations()
	for _, key := range split(s.Annotations[AnnotationCarried]) {
		if slices.Contains(carried, key) {
			delete(s.Annotations, key)
		}
	}
	delete(s.Annotations, AnnotationCarried)
	given := setAmong(annotations, carried)
	for _, key := range given {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, annotations[key])
	}
	if len(given) > 0 {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, AnnotationCarried, strings.Join(given, ","))
	}
}

// follow brings a generated object in line with the annotations. Fields that annotations
// cannot express, such as the retention policy, stay as a user set them.
func follow(in GenerateInput, old *appsv1beta1.PersistentPodState, want appsv1beta1.PersistentPodStateSpec) Generation {
	object := old.DeepCopy()
	object.Spec.RequiredPersistentTopology = want.RequiredPersistentTopology
	object.Spec.PreferredPersistentTopology = want.PreferredPersistentTopology
	object.Spec.PersistentPodAnnotations = want.PersistentPodAnnotations
	claim(in, object)
	if equality.Semantic.DeepEqual(old, object) {
		return Generation{Reason: ReasonUpToDate, Message: "PersistentPodState " + old.Name + " is up to date", Object: object}
	}
	return Generation{Update, ReasonFollowed, "brought PersistentPodState " + old.Name + " in line with the annotations", object}
}

// ours reports whether the object was generated for the workload, or for a predecessor of its
// kind and name that left it behind. Ownership alone does not tell: charts and operators let
// a workload own objects that they made for it.
func ours(in GenerateInput, s *appsv1beta1.PersistentPodState) bool {
	return s.Labels[LabelGenerated] == "true" && alike(in, s) &&
		(metav1.GetControllerOfNoCopy(s) == nil || slices.ContainsFunc(s.OwnerReferences, in.named))
}

// kruises reports whether the object is as OpenKruise generates it, without a mark. Its owner
// reference does not block the deletion of the owner, unlike most others.
func kruises(in GenerateInput, s *appsv1beta1.PersistentPodState) bool {
	owner := metav1.GetControllerOfNoCopy(s)
	preferred := s.Spec.PreferredPersistentTopology
	return owns(in.Workload, s) && owner.BlockOwnerDeletion == nil && alike(in, s) &&
		s.Spec.PersistentPodStateRetentionPolicy == "" &&
		(len(preferred) == 0 || len(preferred) == 1 && preferred[0].Weight == generatedWeight)
}

// alike reports whether the object has the name and the target of what is generated for the
// workload. The target tells the kind of a predecessor that the object no longer names.
func alike(in GenerateInput, s *appsv1beta1.PersistentPodState) bool {
	return s.Name == in.Workload.GetName() && in.isTarget(*s)
}

// named reports whether an owner is the workload, or one that had its kind and name before it.
func (in GenerateInput) named(o metav1.OwnerReference) bool {
	return o.Controller != nil && *o.Controller && o.Name == in.Workload.GetName() &&
		workload.NewTarget(o.APIVersion, o.Kind, o.Name) == workload.NewTarget(in.Kind.GroupVersion().String(), in.Kind.Kind, o.Name)
}

// claim marks the object as generated, and carries annotations over. The workload does not own it: the garbage collector
// would delete the records with a workload that is applied again a moment later.
func claim(in GenerateInput, s *appsv1beta1.PersistentPodState) {
	carry(in, s)
	delete(s.Annotations, AnnotationKeepFrom)
	if _, named := in.Workload.GetAnnotations()[appsv1beta1.AnnotationAutoGenerate]; !named {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, AnnotationKeepFrom, in.keep().From)
	}
	metav1.SetMetaDataLabel(&s.ObjectMeta, LabelGenerated, "true")
	s.OwnerReferences = slices.DeleteFunc(s.OwnerReferences, in.named)
}

// outlives reports whether a generated object is over: for a minute its workload has been missing, or of a kind that is no
// longer named, and it has no record left. A workload that is replaced is missing for a moment, too. left is how much
// of the minute is left.
func outlives(in RecordInput, status *appsv1beta1.PersistentPodStateStatus) (over bool, left time.Duration) {
	c := meta.FindStatusCondition(status.Conditions, appsv1beta1.ConditionRecording)
	mine := in.State.Labels[LabelGenerated] == "true" && in.State.Name == TargetOf(in.State).Name
	if !mine || in.Workload != nil || in.Unread+in.Kinds.Problem != "" || len(status.PodStates)+len(in.Pods) > 0 {
		return false, 0
	}
	left = max(c.LastTransitionTime.Add(orphanGrace).Sub(in.Now), 0)
	return left == 0, left
}

func specOf(in GenerateInput) appsv1beta1.PersistentPodStateSpec {
	annotations := in.Workload.GetAnnotations()
	spec := appsv1beta1.PersistentPodStateSpec{
		TargetReference: appsv1beta1.TargetReference{
			APIVersion: in.Kind.GroupVersion().String(), Kind: in.Kind.Kind, Name: in.Workload.GetName(),
		},
	}
	if keys := split(annotations[appsv1beta1.AnnotationRequiredTopology]); len(keys) > 0 {
		spec.RequiredPersistentTopology = &appsv1beta1.NodeTopologyTerm{Keys: keys}
	}
	keys := split(annotations[appsv1beta1.AnnotationPreferredTopology])
	if len(keys) == 0 && spec.RequiredPersistentTopology == nil && in.keep().Value != "" {
		keys = []string{corev1.LabelHostname}
	}
	if len(keys) > 0 {
		spec.PreferredPersistentTopology = []appsv1beta1.PreferredTopologyTerm{{
			Weight: generatedWeight, Preference: appsv1beta1.NodeTopologyTerm{Keys: keys},
		}}
	}
	for _, key := range split(annotations[appsv1beta1.AnnotationPodAnnotations]) {
		spec.PersistentPodAnnotations = append(spec.PersistentPodAnnotations, appsv1beta1.PersistentPodAnnotation{Key: key})
	}
	return spec
}

func split(list string) []string {
	var keys []string
	for key := range strings.SplitSeq(list, ",") {
		if key = strings.TrimSpace(key); key != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}
