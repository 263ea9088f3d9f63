package guard

import (
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/disruption"
)

// respond says an answer in the words of the webhook.
func respond(r disruption.Request, a disruption.Answer) admission.Response {
	response := admission.Allowed("")
	switch {
	case a.Refused() && a.Reason == budget.ReasonStale:
		response = gone(r.Pod.Name, a.Message)
	case a.Refused():
		response = refusal(a)
	case r.DryRun:
		response.Warnings = a.Left
	case a.Verdict == budget.Accounted && a.Reason == budget.ReasonPolicy:
		response.Warnings = []string{fmt.Sprintf("pod %s goes whatever its budgets say (%s), and takes a unit of each", r.Pod.Name, a.Vector)}
	}
	if a.Reason != budget.ReasonUnprotected {
		response.AuditAnnotations = map[string]string{"vector": string(a.Vector), "verdict": string(a.Verdict), "reason": string(a.Reason)}
	}
	return response
}

// refusal is an answer after which clients such as kubectl drain try again. The cause is the one
// of a PodDisruptionBudget, which autoscalers know. It names no time to wait: client libraries
// would sleep and repeat the request without a word to their user.
func refusal(a disruption.Answer) admission.Response {
	var causes []metav1.StatusCause
	for _, message := range causesOf(a) {
		causes = append(causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: message})
	}
	return later(strings.TrimSuffix(a.Message+"\n"+a.Offer, "\n"), causes...)
}

// causesOf has one entry for each budget that refuses.
func causesOf(a disruption.Answer) []string {
	kind := "PodUnavailableBudget"
	if a.Reason == budget.ReasonPDB || a.Reason == budget.ReasonManyPDBs {
		kind = "PodDisruptionBudget"
	}
	var all []string
	for _, name := range a.Blocking {
		all = append(all, fmt.Sprintf("%s %s: %s", kind, name, a.Reason))
	}
	if len(all) == 0 {
		all = []string{strings.TrimSpace(string(a.Reason) + ": " + a.Message)}
	}
	return all
}

// undecided is the answer to a request that cannot be judged now. An error of the server would
// end a drain.
func undecided(err error) admission.Response { return later("cannot be judged now: " + err.Error()) }

// probed is the answer to a probe of the guard.
func probed() admission.Response {
	return later("the guard is called", metav1.StatusCause{Type: disruption.CauseProbe})
}

func later(message string, causes ...metav1.StatusCause) admission.Response {
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: message,
	}
	if len(causes) > 0 {
		status.Details = &metav1.StatusDetails{Causes: causes}
	}
	return denied(status)
}

// gone is the answer to a request for a pod that was rebuilt meanwhile. A drain is done with it.
func gone(pod, message string) admission.Response {
	return denied(metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: message,
		Details: &metav1.StatusDetails{Kind: string(corev1.ResourcePods), Name: pod},
	})
}

func denied(status metav1.Status) admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: &status}}
}
