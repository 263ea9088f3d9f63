package pin

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// present returns the pods that may still hold addresses, including those being deleted.
func present(pods []corev1.Pod) map[string]bool {
	there := map[string]bool{}
	for i := range pods {
		there[pods[i].Name] = there[pods[i].Name] || !workload.Ended(&pods[i])
	}
	return there
}

// noteEnds notes in the records since when their addresses are held by no pod any more. A successor that waits does
// not hold them; one that has them does, whether it is Ready or not.
func noteEnds(in RecordInput, records map[string]appsv1beta1.PodState) {
	pods := map[string]*corev1.Pod{}
	for i := range in.Pods {
		if p := &in.Pods[i]; !workload.Ended(p) {
			pods[p.Name] = p
		}
	}
	for name, r := range records {
		pod, at := pods[name], in.Now
		if pod != nil && pod.CreationTimestamp.Time.Before(at) {
			at = pod.CreationTimestamp.Time
		}
		switch {
		case r.RetainSeconds == 0 || pod != nil && (pod.UID == r.UID || sameIPs(Addresses(pod), r.IPs)):
			r.EndedAt = nil
		case r.EndedAt == nil:
			r.EndedAt = &metav1.Time{Time: at.Truncate(time.Second)}
		}
		records[name] = r
	}
}

// endOf returns when the recorded life of a pod ended; zero if that is unknown. A pod is created when the former one
// is gone, maybe long after.
func endOf(before appsv1beta1.PodState, pod *corev1.Pod, now time.Time) time.Time {
	created := pod.CreationTimestamp.Time
	switch {
	case before.EndedAt != nil:
		return before.EndedAt.Time
	case before.UID != pod.UID && !created.IsZero() && now.Sub(created) >= time.Duration(before.RetainSeconds)*time.Second:
		return created
	}
	return time.Time{}
}

// expire starts, stops and ends the time that records have left, and returns when the next
// record ends. The time runs from the end of the pod, as for its addresses.
func expire(in RecordInput, active map[string]bool, records map[string]appsv1beta1.PodState) (again time.Duration) {
	there := present(in.Pods)
	for name, r := range records {
		left, ends := time.Duration(0), false
		switch {
		case active[name] || wanted(in, name, len(active)):
			r.ExpiresAt = nil
		case r.RetainSeconds == 0 || in.State.Spec.PersistentPodStateRetentionPolicy != "":
			ends = true
		case there[name]:
			r.ExpiresAt, r.Waiting = nil, nil // a pod that is not wanted does not wait
		default:
			r.ExpiresAt, r.Waiting = deadline(in.Now, r), nil
			left = r.ExpiresAt.Sub(in.Now)
			ends = left <= 0
		}
		if ends {
			delete(records, name)
			continue
		}
		records[name] = r
		again = sooner(again, left)
	}
	return again
}

// deadline returns when the record of a gone pod ends. The API keeps whole seconds; rounding
// up never ends a record too early.
func deadline(now time.Time, r appsv1beta1.PodState) *metav1.Time {
	if r.ExpiresAt != nil {
		return r.ExpiresAt
	}
	end := now.Add(time.Duration(r.RetainSeconds) * time.Second).Add(time.Second - 1).Truncate(time.Second)
	return &metav1.Time{Time: end}
}

func wanted(in RecordInput, pod string, living int) bool {
	if in.Workload == nil {
		return false
	}
	return in.State.Spec.PersistentPodStateRetentionPolicy == appsv1beta1.RetainWhenDeleted || in.Workload.Contains(pod, living)
}
