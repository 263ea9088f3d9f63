package main

import (
	"net/http"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/budget/guard"
	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/platform/serving"
)

// newWebhookServer makes the server of all webhooks.
func newWebhookServer(o options, certificate *serving.Certificate, strangers *serving.Strangers) (*serving.Server, error) {
	networks, err := o.networks()
	if err != nil {
		return nil, err
	}
	var clients *serving.Clients
	if o.ClientCA != "" {
		if clients, err = serving.NewClients(o.ClientCA, o.ClientNames); err != nil {
			return nil, err
		}
	}
	certificate.Show(metrics.Registry)
	return serving.NewServer(serving.Options{
		Port: o.WebhookPort, Certificate: certificate, Clients: clients, Networks: networks, Strangers: strangers,
		Limits: serving.DefaultLimits, AnswerInReview: []string{disruption.GuardPath}, Registry: metrics.Registry, Clock: clock.RealClock{},
	}), nil
}

// addWebhooks adds the webhooks of all features to the manager's server. Their paths are
// in deploy/controller/webhooks.yaml.
func addWebhooks(mgr ctrl.Manager, all []feature, s shared) error {
	created := &creation.Handler{MaxReservation: s.options.MaxReservation, Clock: s.clock}
	server, answers := mgr.GetWebhookServer(), serving.NewAnswers(metrics.Registry, s.clock)
	register := func(path string, handler http.Handler) { server.Register(path, answers.Count(path, handler)) }
	for _, f := range all {
		if f.planners != nil {
			created.Planners = append(created.Planners, f.planners(s)...)
		}
		if f.validators != nil {
			for path, handler := range f.validators(s) {
				register(path, handler)
			}
		}
	}
	labelled := *created
	labelled.Labelled = true
	register(creation.Path, created.Webhook())
	register(creation.SpreadPath, labelled.Webhook())
	guarding := &guard.Handler{Judge: s.judge.Judge, Live: mgr.GetAPIReader(), Status: mgr.GetClient().Status(), Clock: s.clock}
	register(disruption.GuardPath, &webhook.Admission{Handler: guarding})
	convert, err := converter(all, mgr.GetConverterRegistry())
	if err == nil {
		server.Register(serving.ConversionPath, convert)
	}
	return err
}

// converter converts the kinds of all features between the versions of their CRDs.
func converter(all []feature, registry conversion.Registry) (http.Handler, error) {
	own, err := schemeOf(all) // any client may send objects of any kind, and pods are large in memory
	if err != nil {
		return nil, err
	}
	addUnserved(own)
	return conversion.NewWebhookHandler(own, registry), nil
}
