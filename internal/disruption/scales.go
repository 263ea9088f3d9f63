package disruption

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/cluster"
)

const (
	scaleMemory   = time.Second      // how long a size is remembered
	unknownMemory = 10 * time.Second // how long it is remembered that there is none: budgets may name any kind
	mostScales    = 4096
)

// scales reads scale subresources of any kind, with the bounds of a live reader: users choose
// which kinds and names are read.
type scales struct {
	live *cluster.LiveReader

	mu      sync.Mutex
	answers map[scaleKey]scaleAnswer
}

type scaleKey struct {
	kind schema.GroupVersionKind
	client.ObjectKey
}

type scaleAnswer struct {
	replicas int32
	unknown  string
	until    time.Time
}

func newScales(subresources client.SubResourceClientConstructor) *scales {
	return &scales{
		live:    cluster.NewLiveReader(scaleReader{subresources}, cluster.LimitUnproven),
		answers: map[scaleKey]scaleAnswer{},
	}
}

// read returns how many pods a workload wants, or why that is not known.
func (s *scales) read(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey, now time.Time) (int32, string, error) {
	id := scaleKey{kind, key}
	s.mu.Lock()
	known, ok := s.answers[id]
	s.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.replicas, known.unknown, nil
	}
	of := &unstructured.Unstructured{}
	of.SetGroupVersionKind(kind)
	err := s.live.Get(ctx, key, of)
	answer := scaleAnswer{until: now.Add(scaleMemory)}
	switch {
	case errors.Is(err, errNoScale) || apierrors.IsForbidden(err):
		answer.unknown, answer.until = fmt.Sprintf("the size of %s %s cannot be read: %v", kind.Kind, key.Name, err), now.Add(unknownMemory)
	case apierrors.IsNotFound(err): // of a workload that is gone
	case err != nil:
		return 0, "", fmt.Errorf("get scale of %s %s: %w", kind.Kind, key, err)
	default:
		replicas, _, err := unstructured.NestedInt64(of.Object, "spec", "replicas") // a missing field means 0
		if err != nil {
			return 0, "", fmt.Errorf("read scale of %s %s: %w", kind.Kind, key, err)
		}
		answer.replicas = int32(min(max(replicas, 0), 1<<30))
	}
	s.remember(id, answer)
	return answer.replicas, answer.unknown, nil
}

func (s *scales) remember(id scaleKey, answer scaleAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.answers) >= mostScales {
		clear(s.answers)
	}
	s.answers[id] = answer
}

// errNoScale is returned for a kind that the API server does not serve, or that has no scale.
var errNoScale = errors.New("its kind has no scale subresource that the API server serves")

// scaleReader reads the scale subresource of an object in place of the object.
type scaleReader struct {
	subresources client.SubResourceClientConstructor
}

// Get reads a scale.
func (r scaleReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	of := &unstructured.Unstructured{}
	of.SetGroupVersionKind(into.GetObjectKind().GroupVersionKind())
	of.SetNamespace(key.Namespace)
	of.SetName(key.Name)
	scale := &unstructured.Unstructured{}
	scale.SetAPIVersion("autoscaling/v1")
	scale.SetKind("Scale")
	err := r.subresources.SubResource("scale").Get(ctx, of, scale)
	var status apierrors.APIStatus
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%w: %w", errNoScale, err)
	case apierrors.IsNotFound(err) && errors.As(err, &status) && (status.Status().Details == nil || status.Status().Details.Name != key.Name):
		return fmt.Errorf("%w: %w", errNoScale, err) // the path is not served
	case err != nil:
		return err
	}
	into.(*unstructured.Unstructured).Object = scale.Object
	return nil
}

// List is not used.
func (r scaleReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.ErrUnsupported
}
