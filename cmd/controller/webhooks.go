package main

import (
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/limpet-io/limpet/internal/webhook/admit"
	"github.com/limpet-io/limpet/internal/webhook/serving"
	"github.com/limpet-io/limpet/internal/webhook/validate"
	"github.com/limpet-io/limpet/internal/workloads"
)

// addWebhooks adds every webhook to the manager's server.
func addWebhooks(mgr ctrl.Manager, reader *workloads.Reader, o Options, c clock.PassiveClock) {
	scheme, server := mgr.GetScheme(), mgr.GetWebhookServer()
	server.Register(admit.PodPath, &webhook.Admission{Handler: &admit.PodCreate{
		Cached: mgr.GetCache(), Live: mgr.GetAPIReader(), Workloads: reader, MaxReservation: o.MaxReservation, Clock: c,
	}})
	state := &validate.PersistentPodState{Live: mgr.GetAPIReader(), Cached: mgr.GetCache(), Workloads: reader}
	server.Register(validate.PersistentPodStatePath, admission.WithValidator(scheme, state))
	server.Register(validate.FormerPersistentPodStatePath, admission.WithValidator(scheme, validate.FormerPersistentPodState{PersistentPodState: state}))
	server.Register(validate.StatefulSetPath, admission.WithValidator(scheme, &validate.StatefulSet{MaxReservation: o.MaxReservation}))
	server.Register(serving.ConversionPath, conversion.NewWebhookHandler(scheme, mgr.GetConverterRegistry()))
}
