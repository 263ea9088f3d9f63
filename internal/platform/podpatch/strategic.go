package podpatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// ErrIdentity is returned for a strategic merge patch that makes another pod of a pod: books and
// owners would not find it.
var ErrIdentity = errors.New("patch changes the name, the namespace or an owner of the pod")

// mostListWork bounds the time of a merge, which grows with the square of the length of each list:
// one list of 630 items takes some 50 ms. Users choose both the pod and the patch.
const mostListWork = 400_000

// ErrLists is returned where the lists of a pod and of a patch are too long to be merged.
var ErrLists = errors.New("lists of the pod and of the patch are too long to be merged; remedy: a patch without lists, or shorter lists")

// Apply applies a strategic merge patch to a pod in JSON.
func Apply(raw, patch []byte) ([]byte, error) {
	if bytes.ContainsRune(patch, '[') { // without a list there is nothing to merge item by item
		var lists [2]any
		if err := errors.Join(json.Unmarshal(raw, &lists[0]), json.Unmarshal(patch, &lists[1])); err != nil {
			return nil, fmt.Errorf("decode strategic merge patch: %w", err)
		}
		if listWork(lists[0])+listWork(lists[1]) > mostListWork {
			return nil, fmt.Errorf("apply strategic merge patch: %w", ErrLists)
		}
	}
	after, err := merge(raw, patch)
	if err != nil {
		return nil, fmt.Errorf("apply strategic merge patch: %w", err)
	}
	return after, nil
}

// errValues is returned for a patch with a list or an object where only a simple value can be compared.
var errValues = errors.New("a list or an object is in a place where a text or a number must be")

// merge turns a panic of the library into an error: it compares values of the patch that may be lists.
func merge(raw, patch []byte) (after []byte, err error) {
	defer func() {
		if recover() != nil {
			after, err = nil, errValues
		}
	}()
	return strategicpatch.StrategicMergePatch(raw, patch, &corev1.Pod{})
}

// listWork adds up the squares of the lengths of all lists.
func listWork(value any) int {
	work := 0
	switch v := value.(type) {
	case map[string]any:
		for _, item := range v {
			work += listWork(item)
		}
	case []any:
		work = len(v) * len(v)
		for _, item := range v {
			work += listWork(item)
		}
	}
	return work
}

// Strategic applies a strategic merge patch to a pod, and returns the result. An error tells that
// Operations would fail as well, or that the patch changes the identity of the pod.
func Strategic(pod *corev1.Pod, patch []byte) (*corev1.Pod, error) {
	raw, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encode pod: %w", err)
	}
	after, err := Apply(raw, patch)
	if err != nil {
		return nil, err
	}
	patched := &corev1.Pod{}
	if err := json.Unmarshal(after, patched); err != nil {
		return nil, fmt.Errorf("decode patched pod: %w", err)
	}
	if !sameIdentity(pod, patched) {
		return nil, fmt.Errorf("apply strategic merge patch: %w", ErrIdentity)
	}
	return patched, nil
}

func sameIdentity(a, b *corev1.Pod) bool {
	return a.Name == b.Name && a.GenerateName == b.GenerateName && a.Namespace == b.Namespace && a.UID == b.UID &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}

// priorityOperations removes what the API server computed from the former priority class. It
// computes both fields again, and refuses a pod whose fields do not fit its class.
func priorityOperations(before, after []byte) ([]jsonpatch.Operation, error) {
	a, err := prioritiesOf(before)
	if err != nil {
		return nil, err
	}
	b, err := prioritiesOf(after)
	if err != nil || a.Spec.PriorityClassName == b.Spec.PriorityClassName {
		return nil, err
	}
	var ops []jsonpatch.Operation
	if equalValue(a.Spec.Priority, b.Spec.Priority) {
		ops = append(ops, jsonpatch.NewOperation("remove", "/spec/priority", nil))
	}
	if equalValue(a.Spec.PreemptionPolicy, b.Spec.PreemptionPolicy) {
		ops = append(ops, jsonpatch.NewOperation("remove", "/spec/preemptionPolicy", nil))
	}
	return ops, nil
}

func equalValue[T comparable](a, b *T) bool { return a != nil && b != nil && *a == *b }

// priorities are the fields of a pod that follow from its priority class.
type priorities struct {
	Spec struct {
		PriorityClassName string  `json:"priorityClassName"`
		Priority          *int32  `json:"priority"`
		PreemptionPolicy  *string `json:"preemptionPolicy"`
	} `json:"spec"`
}

func prioritiesOf(raw []byte) (p priorities, err error) {
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, fmt.Errorf("decode priority of pod: %w", err)
	}
	return p, nil
}
