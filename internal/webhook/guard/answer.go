package guard

import (
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/disruption"
)

// refusal is an answer after which clients such as kubectl drain try again. The cause is the one
// of a PodDisruptionBudget, which autoscalers know. It names no time to wait: client libraries
// would sleep and repeat the request without a word to their user.
func refusal(v Verdict) admission.Response {
	var causes []metav1.StatusCause
	for _, message := range v.Causes {
		causes = append(causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: message})
	}
	response := later(v.Message, causes...)
	response.AuditAnnotations = v.Audit
	return response
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
func gone(pod string, v Verdict) admission.Response {
	response := denied(metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: v.Message,
		Details: &metav1.StatusDetails{Kind: string(corev1.ResourcePods), Name: pod},
	})
	response.AuditAnnotations = v.Audit
	return response
}

func denied(status metav1.Status) admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: &status}}
}
