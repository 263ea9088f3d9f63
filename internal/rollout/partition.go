package rollout

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
)

// errPercent is returned for a value that is no percentage.
var errPercent = errors.New(`must be a percentage from "0%" to "100%"`)

// PartitionOf returns how many of a StatefulSet's pods stay as they are during a rolling update.
// OpenKruise counts in the same way: percentages are rounded up, but below 100% at least one of
// several pods is updated. It is also the partition of the StatefulSet, which counts from the
// first ordinal, wherever that is.
func PartitionOf(percentage string, replicas int32) (int32, error) {
	percent, err := percentOf(percentage)
	if err != nil {
		return 0, err
	}
	replicas = max(replicas, 0)
	keeps := int32((int64(replicas)*percent + 99) / 100)
	if percent < 100 && replicas > 1 && keeps == replicas {
		keeps--
	}
	return keeps, nil
}

// Partition returns the partition that a StatefulSet has by a percentage; false for a set whose
// strategy has no partition.
func Partition(set *appsv1.StatefulSet, percentage string) (keeps int32, has bool, err error) {
	keeps, err = PartitionOf(percentage, ptr.Deref(set.Spec.Replicas, 1))
	return keeps, err == nil && set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType, err
}

// HasPartition reports whether a StatefulSet has a partition now.
func HasPartition(set *appsv1.StatefulSet, keeps int32) bool {
	r := set.Spec.UpdateStrategy.RollingUpdate
	return r != nil && ptr.Deref(r.Partition, 0) == keeps
}

// percentOf reads a percentage.
func percentOf(text string) (int64, error) {
	digits, ok := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseUint(digits, 10, 8)
	if !ok || err != nil || percent > 100 {
		return 0, fmt.Errorf("%.32q %w", text, errPercent)
	}
	return int64(percent), nil
}
