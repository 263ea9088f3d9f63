package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// verbs counts the ADDs in the logs of the plugin since a time, and returns each verb that failed.
func verbs(ctx context.Context, b *bed.Bed, since time.Time) (adds int, failed []string, err error) {
	for _, node := range b.Cluster.Nodes() {
		out, err := b.Cluster.Exec(ctx, node, "sh", "-c", "cat /var/log/limpet/ipam.log.1 /var/log/limpet/ipam.log 2>/dev/null || true")
		if err != nil {
			return adds, failed, fmt.Errorf("read the plugin's log on %s: %w", node, err)
		}
		for line := range strings.Lines(string(out)) {
			var l struct {
				Time                       time.Time
				Verb, Outcome, Pod, Reason string
			}
			if json.Unmarshal([]byte(line), &l) != nil || l.Time.Before(since) {
				continue
			}
			if l.Verb == "ADD" {
				adds++
			}
			if l.Outcome == "failed" || l.Outcome == "refused" || l.Outcome == "unrepaired" {
				failed = append(failed, fmt.Sprintf("%s on %s: %s of %s: %s", l.Outcome, node, l.Verb, l.Pod, l.Reason))
			}
		}
	}
	return adds, failed, nil
}

// disagreements runs limpet-ipam check on each node, by the version of the plugin that is there.
func disagreements(ctx context.Context, b *bed.Bed) []string {
	var found []string
	for _, node := range b.Cluster.Nodes() {
		if out, err := b.Cluster.Exec(ctx, node, "/opt/cni/bin/limpet-ipam", "check"); err != nil {
			found = append(found, fmt.Sprintf("limpet-ipam check on %s: %v: %s", node, err, out))
		}
	}
	return found
}

// errorsIn returns the messages of errors in the logs of agents and controllers since a time, with their numbers.
func errorsIn(ctx context.Context, b *bed.Bed, since time.Time) (map[string]int, error) {
	messages := map[string]int{}
	for _, app := range []string{"limpet-agent", "limpet-controller"} {
		out, err := b.Kubectl(ctx, "-n", bed.System, "logs", "-l", "app.kubernetes.io/name="+app, "--tail=-1", "--since-time="+since.UTC().Format(time.RFC3339))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(out) {
			if message, isError := messageOf(line); isError {
				messages[app+": "+message]++
			}
		}
	}
	return messages, nil
}

// messageOf returns the message of a line of klog's text format, without its time, and whether it is an error.
func messageOf(line string) (string, bool) {
	if len(line) < 2 || line[0] != 'E' || line[1] < '0' || line[1] > '9' {
		return "", false
	}
	_, message, _ := strings.Cut(line, "] ")
	return strings.TrimSpace(message), true
}
