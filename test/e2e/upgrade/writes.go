package upgrade

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// AuditPolicy is the audit policy for the cluster: all that Limpet writes, but leases and events.
const AuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    resources:
      - group: coordination.k8s.io
      - group: events.k8s.io
      - group: authentication.k8s.io
      - group: authorization.k8s.io
      - {group: "", resources: [events]}
  - level: Metadata
    users: ["system:serviceaccount:limpet-system:limpet-agent", "system:serviceaccount:limpet-system:limpet-controller"]
    verbs: [create, update, patch, delete, deletecollection]
  - level: None
`

const (
	calm  = 8 * time.Second
	bound = 90 * time.Second
)

// write is a line of the audit log.
type write struct {
	Verb     string    `json:"verb"`
	URI      string    `json:"requestURI"`
	Received time.Time `json:"requestReceivedTimestamp"`
	User     struct {
		Name string `json:"username"`
	} `json:"user"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

func (w write) String() string {
	uri, _, _ := strings.Cut(w.URI, "?")
	return fmt.Sprintf("%s: %s %s (%d)", w.User.Name[strings.LastIndex(w.User.Name, ":")+1:], w.Verb, uri, w.Response.Code)
}

// writesSince returns what Limpet has written since a time.
func writesSince(b *bed.Bed, since time.Time) ([]write, error) {
	file, err := os.Open(b.Cluster.AuditLog())
	if err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	var found []write
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var w write
		if json.Unmarshal(lines.Bytes(), &w) == nil && w.Received.After(since) { // the last line may be half-written
			found = append(found, w)
		}
	}
	return found, lines.Err()
}

// settle waits until Limpet has written nothing for some seconds, and returns how long that took.
func settle(ctx context.Context, b *bed.Bed) (time.Duration, error) {
	start := time.Now()
	err := bed.Await(ctx, bound, "writes to end", func(context.Context) (bool, string) {
		since := time.Now().Add(-calm)
		found, err := writesSince(b, since)
		return err == nil && len(found) == 0 && since.After(start), fmt.Sprint(err, " ", found)
	})
	return time.Since(start) - calm, err
}
