package webhook

import (
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/limpet-io/limpet/internal/controller"
)

// Register adds every webhook to the manager's server.
func Register(mgr ctrl.Manager, workloads *controller.Workloads, maxReservation time.Duration, c clock.PassiveClock) {
	scheme, server := mgr.GetScheme(), mgr.GetWebhookServer()
	server.Register(PodPath, &webhook.Admission{Handler: &PodCreate{
		Cached: mgr.GetCache(), Live: mgr.GetAPIReader(), Workloads: workloads, MaxReservation: maxReservation, Clock: c,
	}})
	state := &PersistentPodState{Live: mgr.GetAPIReader(), Cached: mgr.GetCache(), Workloads: workloads}
	server.Register(PersistentPodStatePath, admission.WithValidator(scheme, state))
	server.Register(FormerPersistentPodStatePath, admission.WithValidator(scheme, FormerPersistentPodState{state}))
	server.Register(ConversionPath, conversion.NewWebhookHandler(scheme, mgr.GetConverterRegistry()))
	server.Register(StatefulSetPath,
		admission.WithValidator(scheme, &StatefulSet{MaxReservation: maxReservation}))
}
