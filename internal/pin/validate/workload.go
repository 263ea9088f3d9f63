package validate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
)

// WorkloadPath is the path of the webhook for workloads.
const WorkloadPath = "/validate-workload"

// Workload warns of annotations that do nothing, in a workload and in its pod template. It
// refuses nothing. A warning on the pod itself reaches only its controller; a warning on the
// workload reaches the user.
type Workload struct {
	// Cached reads nodes, and PersistentPodStates by their target.
	Cached client.Reader
	// Workloads knows the kinds whose pods return under their names.
	Workloads *workloads.Reader
	// MaxReservation is the longest reservation that the plugin is configured with.
	MaxReservation time.Duration
}

var _ admission.Handler = (*Workload)(nil)

// annotatedWorkload is what is read of a workload of any kind. A CronJob has its pod template in
// the template of its Jobs.
type annotatedWorkload struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Template    annotatedTemplate `json:"template"`
		JobTemplate struct {
			Spec struct {
				Template annotatedTemplate `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
}

type annotatedTemplate struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// Handle answers one request. It reads caches only, and nothing of another namespace.
func (w *Workload) Handle(ctx context.Context, req admission.Request) admission.Response {
	var object annotatedWorkload
	if err := json.Unmarshal(req.Object.Raw, &object); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode %s: %w", req.Kind.Kind, err))
	}
	in := pin.AdviceInput{
		Kind:        schema.GroupVersionKind(req.Kind),
		Annotations: object.Metadata.Annotations, Template: object.Spec.Template.Metadata.Annotations,
		MaxReservation: w.MaxReservation,
	}
	if of := object.Spec.JobTemplate.Spec.Template.Metadata.Annotations; in.Template == nil {
		in.Template = of
	}
	if err := w.gather(ctx, &in, req.Namespace, object.Metadata.Name); err != nil { // a cache that is being stopped
		log.FromContext(ctx).Error(err, "Gave no advice", "kind", req.Kind.Kind)
		return admission.Allowed("")
	}
	return admission.Allowed("").WithWarnings(pin.Advise(in)...)
}

// gather adds what the caches know of the workload.
func (w *Workload) gather(ctx context.Context, in *pin.AdviceInput, namespace, name string) error {
	target := workload.Target{Group: in.Kind.Group, Kind: in.Kind.Kind, Name: name}
	if in.Returns = w.Workloads.Kinds().Contains(target); !in.Returns {
		return nil
	}
	states, err := cluster.StatesOf(ctx, w.Cached, namespace, target)
	if err != nil {
		return err
	}
	in.Targeted = len(states) > 0
	var ns corev1.Namespace
	if err := w.Cached.Get(ctx, client.ObjectKey{Name: namespace}, &ns, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return err
	}
	in.Namespace = ns.Annotations
	in.Missing, err = cluster.MissingLabels(ctx, w.Cached, pin.TopologyKeys(in.Annotations))
	return err
}
