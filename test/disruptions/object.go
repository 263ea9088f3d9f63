package disruptions

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// object is the union of all objects that a log shows.
type object struct {
	Kind     string            `json:"kind"`
	Version  string            `json:"apiVersion"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Details  struct {
		UID string `json:"uid"`
	} `json:"details"`
	Spec struct {
		NodeName   string `json:"nodeName"`
		Containers []struct {
			Image string `json:"image"`
		} `json:"containers"`
		Template struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
		} `json:"template"`
		Unschedulable bool `json:"unschedulable"`
		Taints        []struct {
			Key, Effect string
		} `json:"taints"`
		Strategy             struct{ Type string } `json:"strategy"`
		Replicas             *int                  `json:"replicas"`
		Parallelism          *int                  `json:"parallelism"`
		Completions          *int                  `json:"completions"`
		Suspend              bool                  `json:"suspend"`
		Selector             json.RawMessage       `json:"selector"`
		TargetRef            *target               `json:"targetRef"`
		Ignored              *metav1.LabelSelector `json:"ignoredPodSelector"`
		MaxUnavailable       *intstr.IntOrString   `json:"maxUnavailable"`
		MinAvailable         *intstr.IntOrString   `json:"minAvailable"`
		ProtectTotalReplicas int                   `json:"protectTotalReplicas"`
		ProtectOperations    []string              `json:"protectOperations"`
	} `json:"spec"`
	Status json.RawMessage `json:"status"`
}

type podStatus struct {
	Phase             string             `json:"phase"`
	Conditions        []metav1.Condition `json:"conditions"`
	ContainerStatuses []struct {
		ContainerID string `json:"containerID"`
	} `json:"containerStatuses"`
}

type target struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

func (o object) pod() *Pod {
	var status podStatus
	_ = json.Unmarshal(o.Status, &status) // a pod without a status is not Ready
	p := &Pod{
		UID: string(o.Metadata.UID), Namespace: o.Metadata.Namespace, Name: o.Metadata.Name, Node: o.Spec.NodeName, Labels: o.Metadata.Labels,
		Owner: o.owner(), Deleting: o.Metadata.DeletionTimestamp != nil, Finished: status.Phase == "Succeeded" || status.Phase == "Failed",
		Pending: status.Phase == "" || status.Phase == "Pending", Created: o.Metadata.CreationTimestamp.Time,
	}
	if at, grace := o.Metadata.DeletionTimestamp, o.Metadata.DeletionGracePeriodSeconds; at != nil && grace != nil {
		p.Deleted = at.Add(-time.Duration(*grace) * time.Second)
	}
	for _, r := range o.Metadata.OwnerReferences {
		if uid := string(r.UID); uid != p.Owner.UID {
			p.Others = append(p.Others, uid)
		}
	}
	_, p.KeepsPlace = o.Metadata.Annotations["io.kubernetes.cri/reserved-ip-duration"]
	p.Unprotected, _ = strconv.ParseBool(o.Metadata.Annotations["pub.kruise.io/no-protect"])
	for _, c := range status.Conditions {
		if c.Type == "Ready" && c.Status == metav1.ConditionTrue {
			p.Ready, p.ReadySince = true, c.LastTransitionTime.Time
		}
		p.Infeasible = p.Infeasible || c.Type == "PodResizePending" && c.Reason == "Infeasible"
	}
	var images, runs []string
	for _, c := range o.Spec.Containers {
		images = append(images, c.Image)
	}
	for _, c := range status.ContainerStatuses {
		runs = append(runs, c.ContainerID)
	}
	p.Images, p.Runs = strings.Join(images, " "), strings.Join(runs, " ")
	return p
}

func (o object) owner() Owner {
	for _, r := range o.Metadata.OwnerReferences {
		if r.Controller != nil && *r.Controller {
			return Owner{UID: string(r.UID), Group: groupOf(r.APIVersion), Kind: r.Kind, Name: r.Name}
		}
	}
	return Owner{}
}

func (o object) workload(group, kind string) *Workload {
	w := &Workload{
		UID: string(o.Metadata.UID), Namespace: o.Metadata.Namespace, Group: group, Kind: kind, Name: o.Metadata.Name,
		Owner: o.owner(), Labels: o.Spec.Template.Metadata.Labels, Replicas: 1, Deleting: o.Metadata.DeletionTimestamp != nil,
		Recreate: o.Spec.Strategy.Type == "Recreate",
	}
	switch {
	case o.Spec.Replicas != nil:
		w.Replicas = *o.Spec.Replicas
	case o.Kind == "Scale":
		w.Replicas = 0 // the API server leaves out zero
	case group == "batch" && kind == "Job":
		w.Replicas = o.jobSize()
	}
	return w
}

// jobSize is how many pods a Job wants at a time.
func (o object) jobSize() int {
	n := 1
	if o.Spec.Parallelism != nil {
		n = *o.Spec.Parallelism
	}
	if o.Spec.Suspend {
		return 0
	}
	var status struct {
		Succeeded  int                `json:"succeeded"`
		Conditions []metav1.Condition `json:"conditions"`
	}
	_ = json.Unmarshal(o.Status, &status) // a Job without a status has no pods that succeeded
	for _, c := range status.Conditions {
		if c.Status == metav1.ConditionTrue && c.Type != "Suspended" {
			return 0 // the Job has ended
		}
	}
	if o.Spec.Completions == nil {
		return n
	}
	return max(0, min(n, *o.Spec.Completions-status.Succeeded))
}

func (o object) budget() (*Budget, error) {
	b := &Budget{
		UID: string(o.Metadata.UID), Namespace: o.Metadata.Namespace, Name: o.Metadata.Name, Ignored: o.Spec.Ignored,
		MaxUnavailable: o.Spec.MaxUnavailable, MinAvailable: o.Spec.MinAvailable, Total: o.Spec.ProtectTotalReplicas,
		Operations: o.Spec.ProtectOperations, Vectors: map[Vector]string{},
	}
	if len(o.Spec.Selector) > 0 {
		b.Selector = &metav1.LabelSelector{}
		if err := json.Unmarshal(o.Spec.Selector, b.Selector); err != nil {
			return nil, fmt.Errorf("decode selector of budget %s/%s: %w", b.Namespace, b.Name, err)
		}
	}
	if t := o.Spec.TargetRef; t != nil {
		b.Target = Owner{Group: groupOf(t.APIVersion), Kind: t.Kind, Name: t.Name}
	}
	notes := o.Metadata.Annotations
	if strings.HasSuffix(o.Version, "/v1alpha1") {
		if err := b.annotations(notes); err != nil {
			return nil, fmt.Errorf("read annotations of budget %s/%s: %w", b.Namespace, b.Name, err)
		}
	}
	b.IgnoreScale = notes["pub.kruise.io/disable-fetch-replicas-from-workload"] == "true"
	for pair := range strings.SplitSeq(notes["limpet.dev/vectors"], ",") {
		if v, policy, ok := strings.Cut(strings.TrimSpace(pair), "="); ok {
			b.Vectors[Vector(v)] = policy
		}
	}
	b.KeepPlace = notes["limpet.dev/keep-place"] == "true"
	b.ProtectUnready = notes["limpet.dev/protect-unready"] == "true"
	if text := notes["limpet.dev/stable-seconds"]; text != "" {
		seconds, _ := strconv.Atoi(text)
		b.Stable = time.Duration(seconds) * time.Second
	}
	return b, nil
}

// annotations reads what v1alpha1 has in place of the fields of v1beta1.
func (b *Budget) annotations(notes map[string]string) error {
	var err error
	if text := notes["kruise.io/pub-protect-operations"]; text != "" {
		b.Operations = strings.Split(text, ",")
	}
	if text := notes["pub.kruise.io/protect-total-replicas"]; text != "" {
		if b.Total, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("read number: %w", err)
		}
	}
	if text := notes["limpet.dev/ignored-pod-selector"]; text != "" {
		if err = json.Unmarshal([]byte(text), &b.Ignored); err != nil {
			return fmt.Errorf("read selector: %w", err)
		}
	}
	return nil
}

func (o object) node() *Node {
	n := &Node{Name: o.Metadata.Name, Deleting: o.Metadata.DeletionTimestamp != nil, Unschedulable: o.Spec.Unschedulable}
	for _, t := range o.Spec.Taints {
		if t.Effect == "NoExecute" {
			n.Taints = append(n.Taints, t.Key)
		}
	}
	return n
}

func groupOf(apiVersion string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}
