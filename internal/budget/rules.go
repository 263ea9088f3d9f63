package budget

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

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
	// Operations are the requests that the budget may refuse. It is never empty.
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

// errAnnotation is wrapped by each error of RulesOf.
var errAnnotation = errors.New("invalid annotation")

// RulesOf parses the annotations and operations of a budget. An invalid annotation is an
// error that names the annotation and what to write instead. The returned rules then hold
// the valid part, and the default for the rest.
func RulesOf(pub *policyv1beta1.PodUnavailableBudget) (Rules, error) {
	rules := Rules{FailurePolicy: Open, Operations: OperationsOf(pub)}
	var errs []error
	read := func(annotation string, parse func(string) error) {
		text, ok := pub.Annotations[annotation]
		if !ok {
			return
		}
		if err := parse(strings.TrimSpace(text)); err != nil {
			errs = append(errs, fmt.Errorf("%w %s: %w", errAnnotation, annotation, err))
		}
	}
	read(policyv1beta1.AnnotationVectors, rules.parseVectors)
	read(policyv1beta1.AnnotationFailurePolicy, rules.parseFailurePolicy)
	read(policyv1beta1.AnnotationStableSeconds, rules.parseStable)
	read(policyv1beta1.AnnotationKeepPlace, boolean(&rules.KeepPlace))
	read(policyv1beta1.AnnotationProtectUnready, boolean(&rules.ProtectUnready))
	read(policyv1beta1.AnnotationIgnoreScale, boolean(&rules.IgnoreScale))
	return rules, errors.Join(errs...)
}

// OperationsOf returns the operations that a budget protects.
//
// A resize is an update for a budget that lists nothing, as it is in OpenKruise while its
// gate InPlacePodVerticalScaling is off, which is the default. OpenKruise cannot act on that:
// since Kubernetes 1.33 a resize comes through pods/resize, of which OpenKruise is not told.
// A budget that lists operations is taken at its word: it protects from RESIZE only if RESIZE
// is listed.
func OperationsOf(pub *policyv1beta1.PodUnavailableBudget) []policyv1beta1.Operation {
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
	case v == None || !slices.Contains(vectors, v):
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
	for _, v := range vectors {
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
func boolean(to *bool) func(string) error {
	return func(text string) error {
		value, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q: write true or false", clean(text))
		}
		*to = value
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
