package pin

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// maxRecordBytes is the largest size of the records of one PersistentPodState. etcd stores
// objects of up to 1.5 MiB; the rest is for what users and the API server add.
const maxRecordBytes = 1280 << 10

// truncate leaves out records that would make an object too large to be stored: the API
// server would refuse it with all of them. Stored records come first, so that a record
// does not come and go with others.
func truncate(stored, records map[string]appsv1beta1.PodState) (fitting map[string]appsv1beta1.PodState, left int) {
	if size(records) <= maxRecordBytes {
		return records, 0
	}
	order := func(name string) string { // web-9 before web-10
		_, known := stored[name]
		return fmt.Sprintf("%t %3d %s", !known, len(name), name)
	}
	names := slices.SortedFunc(maps.Keys(records), func(a, b string) int { return strings.Compare(order(a), order(b)) })
	fitting = map[string]appsv1beta1.PodState{}
	total := 0
	for _, name := range names {
		more := size(map[string]appsv1beta1.PodState{name: records[name]})
		if total += more; total > maxRecordBytes {
			return fitting, len(records) - len(fitting)
		}
		fitting[name] = records[name]
	}
	return fitting, 0
}

// unstored returns the records of waiting pods that do not fit. A released pod is not among
// them: the webhook could not know of the release, and would hold the successor to the place
// again, which then waits for its full time as well.
func unstored(records, fitting map[string]appsv1beta1.PodState) map[string]appsv1beta1.PodState {
	var out map[string]appsv1beta1.PodState
	for name, r := range records {
		if _, fits := fitting[name]; fits || r.Waiting == nil || r.ReleasedAt != nil {
			continue
		}
		if out == nil {
			out = map[string]appsv1beta1.PodState{}
		}
		out[name] = r
	}
	return out
}

// size returns the size of records as they are stored.
func size(records map[string]appsv1beta1.PodState) int {
	text, _ := json.Marshal(records) // strings, numbers and times can be encoded
	return len(text)
}
