package pin

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/workload"
)

// present returns the pods that may still hold addresses, including those being deleted.
func present(pods []corev1.Pod) map[string]bool {
	there := map[string]bool{}
	for i := range pods {
		there[pods[i].Name] = there[pods[i].Name] || !workload.Ended(&pods[i])
	}
	return there
}

// gone notes since when recorded pods hold no addresses any more.
func gone(in RecordInput, records map[string]appsv1beta1.PodState) map[string]time.Time {
	there := present(in.Pods)
	since := map[string]time.Time{}
	for name := range records {
		if there[name] {
			continue
		}
		since[name] = in.Now
		if before, known := in.Gone[name]; known {
			since[name] = before
		}
	}
	return since
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
