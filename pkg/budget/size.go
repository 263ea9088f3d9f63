package budget

import policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"

// Workload is one workload whose pods a budget covers.
type Workload struct {
	Name string
	// Replicas is how many pods the workload wants; 0 for one that is being deleted.
	Replicas int32
	// Unknown says why the replicas could not be read; "" when they were.
	Unknown string
}

// SizeOf returns how many pods a budget shall expect, or why that is not known. workloads are
// the distinct workloads of the covered pods, and the target; bare is the number of living
// covered pods without a controller, each of which stands for itself; pods is the number of
// all living covered pods.
func SizeOf(
	pub *policyv1beta1.PodUnavailableBudget, rules Rules, workloads []Workload, bare, pods int,
) (size int32, unknown string) {
	switch {
	case pub.Spec.ProtectTotalReplicas != nil:
		return max(*pub.Spec.ProtectTotalReplicas, 0), ""
	case rules.IgnoreScale:
		return clamp(int64(pods)), ""
	}
	sum := int64(bare)
	for _, w := range workloads {
		if w.Unknown != "" {
			return 0, w.Unknown
		}
		sum += max(int64(w.Replicas), 0)
	}
	return clamp(sum), ""
}
