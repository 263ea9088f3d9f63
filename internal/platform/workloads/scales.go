package workloads

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
)

// SizeMemory is how long a size is remembered.
const SizeMemory = time.Second

const (
	unknownMemory = 10 * time.Second // how long it is remembered that there is none: budgets may name any kind
	mostScales    = 4096
)

// Scales reads how many pods workloads of any kind want, with the bounds of a live reader: users
// choose which kinds and names are read.
type Scales struct {
	// Kinds tells where workloads of further kinds say their size; nil where no kinds are named.
	Kinds *Registry

	scales  *cluster.LiveReader // reads the scale subresource in place of an object
	objects *cluster.LiveReader

	answers *fair.Memory[scaleKey, scaleAnswer]
	since   time.Time // when a number that counts was asked for at the earliest
}

type scaleKey struct {
	kind schema.GroupVersionKind
	client.ObjectKey
	paths string // separated by commas; "" for the scale subresource
}

type scaleAnswer struct {
	replicas     int32
	unknown      string
	asked, until time.Time
}

// NewScales makes a reader of scale subresources. objects reads past the cache; it is needed for
// paths alone.
func NewScales(subresources client.SubResourceClientConstructor, objects client.Reader) *Scales {
	return &Scales{
		scales:  cluster.NewLiveReader(scaleReader{subresources}, cluster.LimitUnproven),
		objects: cluster.NewLiveReader(objects, cluster.LimitUnproven),
		answers: &fair.Memory[scaleKey, scaleAnswer]{},
	}
}

// Since reads as s does, except that no number counts that was asked for before a moment.
func (s *Scales) Since(moment time.Time) *Scales {
	since := *s
	since.since = moment
	return &since
}

// Read returns how many pods a workload wants, or why that is not known. With paths it is the sum
// of these numbers in the workload; otherwise the scale subresource says it.
func (s *Scales) Read(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey, now time.Time, paths ...string) (int32, string, error) {
	id := scaleKey{kind, key, strings.Join(paths, ",")}
	if known, ok := s.answers.Get(key.Namespace, id); ok && now.Before(known.until) && (known.unknown != "" || !known.asked.Before(s.since)) {
		return known.replicas, known.unknown, nil
	}
	replicas, unknown, err := s.ask(ctx, id, paths)
	if err != nil {
		return 0, "", err
	}
	answer := scaleAnswer{replicas, unknown, now, now.Add(SizeMemory)}
	if unknown != "" {
		answer.until = now.Add(unknownMemory)
	}
	s.answers.Put(fair.Bounds{All: mostScales}, key.Namespace, id, answer)
	return answer.replicas, answer.unknown, nil
}

// ask asks the API server.
func (s *Scales) ask(ctx context.Context, id scaleKey, paths []string) (replicas int32, unknown string, err error) {
	reader := s.scales
	if len(paths) > 0 {
		reader = s.objects
	}
	of := &unstructured.Unstructured{}
	of.SetGroupVersionKind(id.kind)
	err = reader.Get(ctx, id.ObjectKey, of)
	switch {
	case errors.Is(err, errNoScale) || meta.IsNoMatchError(err) || apierrors.IsForbidden(err):
		return 0, fmt.Sprintf("the size of %s %s cannot be read: %v", id.kind.Kind, id.Name, err), nil
	case apierrors.IsNotFound(err): // of a workload that is gone
		return 0, "", nil
	case err != nil:
		return 0, "", fmt.Errorf("read size of %s %s: %w", id.kind.Kind, id.ObjectKey, err)
	case len(paths) > 0:
		replicas, err = sumOf(of.Object, paths)
		if err != nil {
			return 0, fmt.Sprintf("the size of %s %s cannot be read: %v", id.kind.Kind, id.Name, err), nil
		}
		return replicas, "", nil
	}
	replicas, _ = cluster.CountAt(of, "spec", "replicas") // a missing field means 0
	return replicas, "", nil
}

// within is a number of pods.
func within(n int64) int32 { return int32(min(max(n, 0), 1<<30)) }

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
