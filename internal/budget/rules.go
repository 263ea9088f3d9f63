package budget

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

var (
	errNoPods        = errors.New("budget names no pods: set selector or targetRef")
	errEmptySelector = errors.New("selector is empty and would select every pod: add a label")
)

// Matcher tells which pods a budget covers. MatcherOf parses the selectors once for many pods.
type Matcher struct {
	selector, ignored labels.Selector
	target            workload.Target
}

// MatcherOf reads the selectors and the target of a budget.
func MatcherOf(pub *policyv1beta1.PodUnavailableBudget) (Matcher, error) {
	var m Matcher
	switch ref := pub.Spec.TargetReference; {
	case pub.Spec.Selector != nil:
		selector, err := selectorOf("selector", pub.Spec.Selector)
		if err != nil {
			return m, fmt.Errorf("budget %s: %w", pub.Name, err)
		}
		m.selector = selector
	case ref != nil && ref.Kind != "" && ref.Name != "":
		m.target = workload.NewTarget(ref.APIVersion, ref.Kind, ref.Name)
	default:
		return m, fmt.Errorf("budget %s: %w", pub.Name, errNoPods)
	}
	if pub.Spec.IgnoredPodSelector == nil {
		return m, nil
	}
	ignored, err := selectorOf("ignoredPodSelector", pub.Spec.IgnoredPodSelector)
	if err != nil {
		return Matcher{}, fmt.Errorf("budget %s: %w", pub.Name, err)
	}
	m.ignored = ignored
	return m, nil
}

func selectorOf(field string, s *metav1.LabelSelector) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", field, err)
	}
	if selector.Empty() {
		return nil, fmt.Errorf("read %s: %w", field, errEmptySelector)
	}
	return selector, nil
}

// Covers reports whether the budget counts a pod, or the pods of a template: by the labels, or by the
// chain of controllers. Names and kinds are compared, not UIDs: a workload that is made again has
// the same budget.
func (m Matcher) Covers(pod metav1.Object, chain []workload.Owner) bool {
	if m.selector != nil {
		return m.selector.Matches(labels.Set(pod.GetLabels()))
	}
	return m.target != (workload.Target{}) && slices.ContainsFunc(chain, func(owner workload.Owner) bool { return owner.Target == m.target })
}

// Exempts reports whether the budget lets a covered pod go without a check: the selector of
// ignored pods matches, or the pod has the annotation pub.kruise.io/no-protect. Such a pod
// still counts: when it goes, one pod less is available.
func (m Matcher) Exempts(pod metav1.Object) bool {
	if noProtect, err := strconv.ParseBool(pod.GetAnnotations()[policyv1beta1.AnnotationNoProtect]); err == nil && noProtect {
		return true
	}
	return m.ignored != nil && m.ignored.Matches(labels.Set(pod.GetLabels()))
}

// Leaves reports whether a change of a pod takes it out of the budget: the budget covers the
// old pod and protects it, and does not do both for the new pod. Labels, owner references
// and the annotation pub.kruise.io/no-protect count, because each of them would otherwise
// open the budget for the next request.
func (m Matcher) Leaves(before, after metav1.Object, beforeChain, afterChain []workload.Owner) bool {
	return m.Covers(before, beforeChain) && !m.Exempts(before) &&
		(!m.Covers(after, afterChain) || m.Exempts(after))
}

// FailurePolicy is what happens to a budget's pods while the controller does not answer.
type FailurePolicy string

// Failure policies.
const (
	Open   FailurePolicy = "Open"
	Closed FailurePolicy = "Closed"
)

// MostStable is the longest stable time. A longer time holds a unit past any rollout.
const MostStable = time.Hour

// Bounds of the annotation limpet.dev/vectors: its length, and how many errors are reported.
const (
	mostVectorBytes  = 1024
	mostVectorErrors = 3
)

// Rules are what the annotations and the operations of a budget say.
type Rules struct {
	// Vectors are the policies that differ from the defaults.
	Vectors map[Vector]Policy
	// Operations are the requests that the budget may refuse. Without any, it may refuse all.
	Operations []policyv1beta1.Operation
	// FailurePolicy is Open unless the budget says Closed.
	FailurePolicy FailurePolicy
	// KeepPlace: a pod may only go when its place is kept for it.
	KeepPlace bool
	// Stable is how long a pod must be Ready before it counts as available.
	Stable time.Duration
	// ProtectUnready: a pod that runs and is not Ready may only go while the budget is not short.
	ProtectUnready bool
	// IgnoreScale takes the number of covered pods for the size of the workload.
	IgnoreScale bool
}

// annotations are those that RulesOf reads.
var annotations = []struct {
	name string
	read func(*Rules, string) error
}{
	{policyv1beta1.AnnotationVectors, (*Rules).parseVectors},
	{policyv1beta1.AnnotationFailurePolicy, (*Rules).parseFailurePolicy},
	{policyv1beta1.AnnotationStableSeconds, (*Rules).parseStable},
	{policyv1beta1.AnnotationKeepPlace, boolean(func(r *Rules) *bool { return &r.KeepPlace })},
	{policyv1beta1.AnnotationProtectUnready, boolean(func(r *Rules) *bool { return &r.ProtectUnready })},
	{policyv1beta1.AnnotationIgnoreScale, boolean(func(r *Rules) *bool { return &r.IgnoreScale })},
}

// AnnotationError is the error of one annotation. It says what to write instead.
type AnnotationError struct {
	Name string
	Err  error
}

func (i AnnotationError) Error() string {
	return fmt.Sprintf("invalid annotation %s: %v", i.Name, i.Err)
}

// RulesOf parses the annotations and operations of a budget. After an error, which joins those of
// ReadRules, the rules hold the valid part, and the default for the rest.
func RulesOf(pub *policyv1beta1.PodUnavailableBudget) (Rules, error) {
	rules, invalid := ReadRules(pub)
	errs := make([]error, len(invalid))
	for i := range invalid {
		errs[i] = invalid[i]
	}
	return rules, errors.Join(errs...)
}

// ReadRules is RulesOf with the errors apart.
func ReadRules(pub *policyv1beta1.PodUnavailableBudget) (rules Rules, invalid []AnnotationError) {
	rules = Rules{FailurePolicy: Open, Operations: operationsOf(pub)}
	for _, a := range annotations {
		if text, set := pub.Annotations[a.name]; set {
			if err := a.read(&rules, strings.TrimSpace(text)); err != nil {
				invalid = append(invalid, AnnotationError{a.name, err})
			}
		}
	}
	return rules, invalid
}

// operationsOf returns the operations that a budget protects.
//
// A resize is an update for a budget that lists nothing, as it is in OpenKruise while its
// gate InPlacePodVerticalScaling is off, which is the default. OpenKruise cannot act on that:
// since Kubernetes 1.33 a resize comes through pods/resize, of which OpenKruise is not told.
// A budget that lists operations is taken at its word: it protects from RESIZE only if RESIZE
// is listed.
func operationsOf(pub *policyv1beta1.PodUnavailableBudget) []policyv1beta1.Operation {
	if len(pub.Spec.ProtectOperations) > 0 {
		return slices.Clone(pub.Spec.ProtectOperations)
	}
	return []policyv1beta1.Operation{
		policyv1beta1.OperationDelete, policyv1beta1.OperationUpdate,
		policyv1beta1.OperationEvict, policyv1beta1.OperationResize,
	}
}

// parseVectors reads pairs such as preemption=Check,scale-in=Allow.
func (r *Rules) parseVectors(text string) error {
	if len(text) > mostVectorBytes {
		return fmt.Errorf("%d bytes are too many: write at most %d", len(text), mostVectorBytes)
	}
	var errs []error
	policies := map[Vector]Policy{}
	for pair := range strings.SplitSeq(text, ",") {
		pair = strings.TrimSpace(pair)
		if pair == "" {
			continue
		}
		v, p, err := parsePair(pair)
		if _, twice := policies[v]; err == nil && twice {
			err = fmt.Errorf("%q is there twice: write it once", string(v))
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		policies[v] = p
	}
	maps.DeleteFunc(policies, func(v Vector, p Policy) bool { return p == v.Default() })
	if len(policies) > 0 {
		r.Vectors = policies
	}
	return errors.Join(errs[:min(len(errs), mostVectorErrors)]...)
}

func parsePair(pair string) (Vector, Policy, error) {
	name, policy, _ := strings.Cut(pair, "=")
	v, p := Vector(strings.TrimSpace(name)), Policy(strings.TrimSpace(policy))
	switch {
	case v == None || !slices.Contains(Vectors, v):
		return "", "", fmt.Errorf("%q names no vector: write pairs of %s with Check or Allow", clean(pair), vectorNames())
	case p != Check && p != Allow:
		return "", "", fmt.Errorf("%q: write %s=Check or %s=Allow", clean(pair), v, v)
	case p == Check && !v.refusable():
		return "", "", fmt.Errorf("%q: no budget can refuse %s: remove the pair", clean(pair), v)
	}
	return v, p, nil
}

// vectorNames are the vectors that a budget may override.
func vectorNames() string {
	var names []string
	for _, v := range Vectors {
		if v.refusable() {
			names = append(names, string(v))
		}
	}
	return strings.Join(names, ", ")
}

func (r *Rules) parseFailurePolicy(text string) error {
	switch FailurePolicy(text) {
	case Open, Closed:
		r.FailurePolicy = FailurePolicy(text)
		return nil
	}
	return fmt.Errorf("%q: write Open or Closed", clean(text))
}

func (r *Rules) parseStable(text string) error {
	seconds, err := strconv.ParseUint(text, 10, 16)
	if stable := time.Duration(seconds) * time.Second; err == nil && stable <= MostStable {
		r.Stable = stable
		return nil
	}
	return fmt.Errorf("%q: write a number of seconds from 0 to %d", clean(text), int(MostStable.Seconds()))
}

// boolean reads true or false, in any of the forms of Go.
func boolean(of func(*Rules) *bool) func(*Rules, string) error {
	return func(r *Rules, text string) error {
		value, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q: write true or false", clean(text))
		}
		*of(r) = value
		return nil
	}
}

// policy is what the budget does about a vector.
func (r Rules) policy(v Vector) Policy {
	if p, ok := r.Vectors[v]; ok && (p == Allow || v.refusable()) {
		return p
	}
	return v.Default()
}

// protects reports whether the budget may refuse the request that brings the vector.
func (r Rules) protects(v Vector) bool {
	return len(r.Operations) == 0 || slices.Contains(r.Operations, v.Operation())
}

// mostDisrupted is how many disrupted pods a PodDisruptionBudget may have before the API
// server refuses further evictions.
const mostDisrupted = 2000

// PDBsOf returns the PodDisruptionBudgets that select a pod. As for the API server, an
// invalid selector selects no pod, and an empty selector selects all pods.
func PDBsOf(pdbs []policyv1.PodDisruptionBudget, podLabels map[string]string) []PDB {
	var out []PDB
	for i := range pdbs {
		selector, err := metav1.LabelSelectorAsSelector(pdbs[i].Spec.Selector)
		if err == nil && selector.Matches(labels.Set(podLabels)) {
			out = append(out, pdbOf(&pdbs[i]))
		}
	}
	return out
}

func pdbOf(p *policyv1.PodDisruptionBudget) PDB {
	unhealthy := p.Spec.UnhealthyPodEvictionPolicy
	return PDB{
		Name:    p.Name,
		Allowed: p.Status.DisruptionsAllowed, CurrentHealthy: p.Status.CurrentHealthy, DesiredHealthy: p.Status.DesiredHealthy,
		Behind: p.Status.ObservedGeneration < p.Generation, Disrupted: p.Status.DisruptedPods,
		AlwaysAllowUnhealthy: unhealthy != nil && *unhealthy == policyv1.AlwaysAllow,
		Selector:             p.Spec.Selector, MaxUnavailable: p.Spec.MaxUnavailable, MinAvailable: p.Spec.MinAvailable,
	}
}

// planPDBs refuses an eviction that the API server would refuse afterwards, so that it costs
// no unit here. The API server answers 500 for a pod with two PodDisruptionBudgets.
func planPDBs(in Input) (Decision, bool) {
	switch {
	case len(in.PDBs) == 0 || in.Pod.Pending:
		return Decision{}, false
	case len(in.PDBs) > 1:
		return Decision{
			Verdict: Refused, Reason: ReasonManyPDBs, Message: manyPDBs(in),
			Offer: Replacement(in.Namespace, in.PDBs), Blocking: pdbNames(in.PDBs),
		}, true
	}
	p := in.PDBs[0]
	p.Allowed -= p.pending(in)
	why := p.refuses(in.Pod.Ready)
	if why == "" {
		return Decision{}, false
	}
	return Decision{
		Verdict: Refused, Reason: ReasonPDB, Blocking: pdbNames(in.PDBs),
		Message: bounded(fmt.Sprintf("PodDisruptionBudget %s %s: pod %s must stay.", clean(p.Name), why, clean(in.Pod.Name))),
	}, true
}

// pending is how many pods may go by evictions that the status does not show yet: the API server asks
// the guard first, and takes the pods from the PodDisruptionBudget afterwards.
func (p *PDB) pending(in Input) (n int32) {
	for uid, e := range in.Book.Entries {
		_, shown := p.Disrupted[e.Pod]
		if uid != in.Pod.UID && !shown && e.Vector == string(Evict) && e.Holds(in.Now) && p.Healthy[uid] {
			n++
		}
	}
	return n
}

// refuses says why the API server will refuse the eviction; "" when it will not.
func (p *PDB) refuses(ready bool) string {
	if !ready && (p.AlwaysAllowUnhealthy || p.CurrentHealthy >= p.DesiredHealthy && p.DesiredHealthy > 0) {
		return ""
	}
	switch {
	case p.Behind:
		return "was changed and is not counted again yet"
	case len(p.Disrupted) > mostDisrupted:
		return fmt.Sprintf("has %d disrupted pods, more than %d", len(p.Disrupted), mostDisrupted)
	case p.Allowed <= 0:
		return fmt.Sprintf("needs %d healthy pods and has %d", p.DesiredHealthy, p.CurrentHealthy)
	}
	return ""
}
