package simulation_test

import (
	"fmt"

	"github.com/limpet-io/limpet/test/disruptions"
)

// line is an event of a trace.
func line(e disruptions.Event) string {
	text := fmt.Sprintf("%s–%s %5d %3d %s %s/%s %s by %s", e.Received.Format("04:05.000"), e.Done.Format("04:05.000"), e.Version, e.Code, e.Verb,
		e.Resource, e.Subresource, e.Name, e.User)
	switch {
	case e.Pod != nil:
		text += fmt.Sprintf(": ready %t, deleting %t, %v of %s %v", e.Pod.Ready, e.Pod.Deleting, e.Pod.Labels, e.Pod.Owner.UID, e.Pod.Others)
	case e.Workload != nil:
		text += fmt.Sprintf(": %s: %d replicas, deleting %t, gone %t", e.Workload.Kind, e.Workload.Replicas, e.Workload.Deleting, e.Workload.Gone)
	case e.Budget != nil:
		text += fmt.Sprintf(": max %v, min %v of %v", e.Budget.MaxUnavailable, e.Budget.MinAvailable, e.Budget.Selector.MatchLabels)
	}
	return text + " " + e.Message
}
