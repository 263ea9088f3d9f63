package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget/disruption"
)

// configurationAgain is the time after which the configuration is read again.
const configurationAgain = 30 * time.Second

// guarded are the requests that the guard must be asked about, by operation and resource.
var guarded = []struct {
	operation admissionv1.OperationType
	resource  string
}{
	{admissionv1.Delete, "pods"},
	{admissionv1.Create, "pods/eviction"},
	{admissionv1.Update, "pods"},
	{admissionv1.Update, "pods/resize"},
	{admissionv1.Update, "pods/status"},
}

// configuration is what was read of the webhook configuration.
type configuration struct {
	at       time.Time
	found    bool
	unread   bool
	webhooks []admissionv1.ValidatingWebhook // of the guard
}

// configuration reads the webhook configuration, unless it was read a moment ago.
func (p *Prober) configuration(ctx context.Context, now time.Time) (configuration, error) {
	p.mu.Lock()
	defer p.mu.Unlock() // so that the budgets of all namespaces share one read
	if !p.config.at.IsZero() && now.Sub(p.config.at) < configurationAgain {
		return p.config, nil
	}
	read := configuration{at: now}
	var object admissionv1.ValidatingWebhookConfiguration
	switch err := p.Live.Get(ctx, client.ObjectKey{Name: p.Configuration}, &object); {
	case apierrors.IsNotFound(err):
	case apierrors.IsForbidden(err): // a role that was changed; the probe tells more
		read.unread = true
	case err != nil:
		return configuration{}, fmt.Errorf("get ValidatingWebhookConfiguration %s: %w", p.Configuration, err)
	default:
		read.found = true
		read.webhooks = slices.DeleteFunc(object.Webhooks, func(w admissionv1.ValidatingWebhook) bool { return !isGuard(w.ClientConfig) })
	}
	p.config = read
	return read, nil
}

// isGuard reports whether a webhook is the guard, by its path.
func isGuard(c admissionv1.WebhookClientConfig) bool {
	if c.Service != nil && c.Service.Path != nil {
		return *c.Service.Path == disruption.GuardPath
	}
	return c.URL != nil && strings.HasSuffix(*c.URL, disruption.GuardPath)
}

// lacks says which requests in a namespace with these labels the guard is not asked about; ""
// for none. missing tells that there is no configuration.
func (c configuration) lacks(of map[string]string) (missing bool, requests string) {
	if c.unread || !c.found {
		return !c.unread, ""
	}
	var lacks []string
	for _, request := range guarded {
		asked := slices.ContainsFunc(c.webhooks, func(w admissionv1.ValidatingWebhook) bool {
			return len(w.ClientConfig.CABundle) > 0 && selects(w.NamespaceSelector, of) && covers(w.Rules, request.operation, request.resource)
		})
		if !asked {
			lacks = append(lacks, fmt.Sprintf("%s of %s", request.operation, request.resource))
		}
	}
	if len(lacks) == 0 {
		return false, ""
	}
	return false, fmt.Sprintf("no webhook with a caBundle asks about %s", strings.Join(lacks, ", "))
}

func selects(s *metav1.LabelSelector, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(of))
}

// covers reports whether rules name a request.
func covers(rules []admissionv1.RuleWithOperations, operation admissionv1.OperationType, resource string) bool {
	return slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
		return (slices.Contains(r.Operations, operation) || slices.Contains(r.Operations, admissionv1.OperationAll)) &&
			slices.Contains(r.APIGroups, "") && slices.Contains(r.APIVersions, "v1") && slices.Contains(r.Resources, resource)
	})
}
