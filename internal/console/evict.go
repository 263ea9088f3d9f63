package console

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/console/facts"
)

// EvictionReport is the answer of the API server to the eviction of one pod, as a dry run.
type EvictionReport struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Allowed   bool   `json:"allowed"`
	// Code is the HTTP status; 201 for an eviction that is allowed.
	Code int32 `json:"code"`
	// Message is what the budgets answered; empty where none was asked.
	Message string `json:"message,omitempty"`
	// Causes are the single budgets that refuse.
	Causes []string `json:"causes,omitempty"`
	// Budgets are those with groups that cover the pod, and their pods. What these may do is an estimate: the answer counts.
	Budgets []budgetNow    `json:"budgets,omitempty"`
	Unread  []facts.Unread `json:"unread,omitempty"`
}

// Eviction asks the API server whether a pod may be evicted now. It changes nothing. An answer
// that is neither yes nor no, such as Forbidden, is an error.
func Eviction(ctx context.Context, c client.Client, namespace, name string) (EvictionReport, error) {
	r := EvictionReport{Namespace: namespace, Pod: name, Code: 201}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	eviction := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}}
	err := c.SubResource("eviction").Create(ctx, pod, eviction, client.DryRunAll)
	if err == nil {
		r.Allowed = true
		return r, nil
	}
	var status apierrors.APIStatus
	if !apierrors.IsTooManyRequests(err) || !errors.As(err, &status) {
		return r, fmt.Errorf("ask whether pod %s/%s may be evicted: %w", namespace, name, err)
	}
	r.Code, r.Message = status.Status().Code, status.Status().Message
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			r.Causes = append(r.Causes, fmt.Sprintf("%s: %s", cause.Type, cause.Message))
		}
	}
	return r, nil
}

// Draw adds the budgets with groups that cover the pod. The facts are BudgetParts of its namespace.
func (r *EvictionReport) Draw(f *facts.Facts) {
	r.Unread, r.Budgets = f.Unread, slices.DeleteFunc(Rings(f), func(b budgetNow) bool {
		return !slices.ContainsFunc(b.Places, func(p PodNow) bool { return p.Pod == r.Pod })
	})
}
