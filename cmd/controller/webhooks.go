package main

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/limpet-io/limpet/internal/webhook/admit"
	"github.com/limpet-io/limpet/internal/webhook/guard"
	"github.com/limpet-io/limpet/internal/webhook/serving"
)

// addWebhooks adds the webhooks of all features to the manager's server. Their paths are
// in deploy/controller/webhooks.yaml.
func addWebhooks(mgr ctrl.Manager, all []feature, s shared) {
	creation := &admit.Creation{MaxReservation: s.options.MaxReservation, Clock: s.clock}
	guards := &guard.Handler{Live: mgr.GetAPIReader()}
	server := mgr.GetWebhookServer()
	for _, f := range all {
		if f.planners != nil {
			creation.Planners = append(creation.Planners, f.planners(s)...)
		}
		if f.guards != nil {
			guards.Guards = append(guards.Guards, f.guards(s)...)
		}
		if f.validators != nil {
			for path, handler := range f.validators(s) {
				server.Register(path, handler)
			}
		}
	}
	server.Register(admit.CreationPath, &webhook.Admission{Handler: creation})
	server.Register(guard.Path, &webhook.Admission{Handler: guards})
	server.Register(serving.ConversionPath, conversion.NewWebhookHandler(mgr.GetScheme(), mgr.GetConverterRegistry()))
}
