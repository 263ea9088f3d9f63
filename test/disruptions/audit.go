package disruptions

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AuditPolicy is the audit policy whose log Read understands: all writes of what budgets count.
const AuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
  - level: RequestResponse
    verbs: [create, update, patch, delete, deletecollection]
    resources:
      - group: ""
        resources: [pods, pods/status, pods/eviction, pods/resize, nodes]
      - group: apps
        resources: [deployments, deployments/scale, replicasets, replicasets/scale, statefulsets, statefulsets/scale]
      - group: batch
        resources: [jobs, jobs/status]
      - group: apps.kruise.io
        resources: [clonesets, clonesets/scale, statefulsets, statefulsets/scale]
      - group: policy.kruise.io
        resources: [podunavailablebudgets]
  - level: None
`

// line is one line of an audit log, audit.k8s.io/v1.
type line struct {
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	User       user   `json:"user"`
	// Impersonated replaces the user.
	Impersonated *user `json:"impersonatedUser"`
	Object       struct {
		Resource, Namespace, Name, Subresource, UID string
		APIGroup                                    string `json:"apiGroup"`
	} `json:"objectRef"`
	Status struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	Request     json.RawMessage   `json:"requestObject"`
	Response    json.RawMessage   `json:"responseObject"`
	Received    time.Time         `json:"requestReceivedTimestamp"`
	Annotations map[string]string `json:"annotations"`
	Done        time.Time         `json:"stageTimestamp"`
}

type user struct {
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
}

// Read returns the events of an audit log: those in some namespaces, or all if none is named. The last line may be cut off.
func Read(r io.Reader, namespaces ...string) ([]Event, error) {
	var events []Event
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if err == io.EOF { //nolint:errorlint // ReadBytes returns it as it is
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		more, err := parse(text, namespaces)
		if err != nil {
			return nil, fmt.Errorf("parse line %d of the audit log: %w", n, err)
		}
		events = append(events, more...)
	}
}

// parse returns the events of one line: one for each object that deletecollection deleted.
func parse(text []byte, namespaces []string) ([]Event, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("decode event: %w", err)
	}
	if l.Stage != "ResponseComplete" || len(namespaces) > 0 && !slices.Contains(namespaces, l.Object.Namespace) {
		return nil, nil
	}
	who := l.User
	if l.Impersonated != nil {
		who = *l.Impersonated
	}
	e := Event{
		Received: l.Received, Done: l.Done, User: who.Username, Groups: who.Groups, Verb: l.Verb, Resource: l.Object.Resource,
		Subresource: l.Object.Subresource, Namespace: l.Object.Namespace, Name: l.Object.Name, Code: l.Status.Code, Message: l.Status.Message,
		DryRun: dryRun(l),
	}
	for key := range l.Annotations {
		e.Open = e.Open || strings.HasPrefix(key, "failed-open.validating.webhook.admission.k8s.io/")
	}
	if e.Code >= 300 {
		return []Event{e.refusedBy(l.Response)}, nil
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if e.Verb != "deletecollection" {
		list.Items = []json.RawMessage{l.Response}
	} else if err := json.Unmarshal(l.Response, &list); err != nil {
		return nil, fmt.Errorf("decode list: %w", err)
	}
	var all []Event
	for _, item := range list.Items {
		one := e
		if err := one.decode(item, l.Object.APIGroup); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// dryRun finds both forms: a parameter of the request, and a field of its body.
func dryRun(l line) bool {
	if strings.Contains(l.RequestURI, "dryRun=All") {
		return true
	}
	type options struct {
		DryRun []string `json:"dryRun"`
	}
	var body struct {
		options
		DeleteOptions *options `json:"deleteOptions"`
	}
	if (l.Verb == "create" && l.Object.Subresource != "eviction") || json.Unmarshal(l.Request, &body) != nil {
		return false
	}
	return len(body.DryRun) > 0 || body.DeleteOptions != nil && len(body.DeleteOptions.DryRun) > 0
}

// refusedBy adds the message of the answer, which says who refused.
func (e Event) refusedBy(response json.RawMessage) Event {
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(response, &status) == nil && status.Message != "" {
		e.Message = status.Message
	}
	return e
}

// decode reads the object of an answer. An answer without an object, such as the Status of an
// eviction, leaves the event without one.
func (e *Event) decode(data json.RawMessage, group string) error {
	if len(data) == 0 {
		return nil
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return fmt.Errorf("decode %s %s/%s: %w", e.Resource, e.Namespace, e.Name, err)
	}
	if o.Kind == "Status" {
		if e.Verb == "delete" {
			e.gone(group, o.Details.UID)
		}
		return nil
	}
	e.Name = o.Metadata.Name
	if e.DryRun { // what a dry run would have made may have no version
		return nil
	}
	if e.Resource == "pods" && strings.HasPrefix(e.Verb, "delete") && (e.Verb == "deletecollection" || o.Metadata.ResourceVersion == "") {
		e.UID = string(o.Metadata.UID) // deletecollection lists the objects as they were before
		return nil
	}
	var err error
	if e.Version, err = strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64); err != nil {
		return fmt.Errorf("read version of the answer to %s %s/%s %s/%s: %w", e.Verb, e.Resource, e.Subresource, e.Namespace, e.Name, err)
	}
	switch e.Resource {
	case "pods":
		e.Pod = o.pod()
	case "podunavailablebudgets":
		if e.Budget, err = o.budget(); err != nil {
			return err
		}
		e.Budget.Gone = e.Verb == "delete" && len(o.Metadata.Finalizers) == 0
	case "nodes":
		e.Node = o.node()
	default: // any other kind is one of workloads
		e.Workload = o.workload(group, o.Kind)
		e.Workload.ScaleOnly = e.Subresource == "scale"
		e.Workload.Gone = e.Verb == "delete" && len(o.Metadata.Finalizers) == 0
	}
	return nil
}

// gone sets an object that was deleted, of which the answer has the UID alone.
func (e *Event) gone(group, uid string) {
	switch e.Resource {
	case "pods", "nodes":
	case "podunavailablebudgets":
		e.Budget = &Budget{UID: uid, Namespace: e.Namespace, Name: e.Name, Gone: true}
	default:
		e.Workload = &Workload{UID: uid, Namespace: e.Namespace, Group: group, Name: e.Name, Gone: true}
	}
}
