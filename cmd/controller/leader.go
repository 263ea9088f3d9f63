package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/uuid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/limpet-io/limpet/internal/platform/leader"
	"github.com/limpet-io/limpet/internal/version"
)

// leaseName is the name of the Lease of the leader.
const leaseName = "limpet-controller"

// elect makes what only the leader does wait for an election, and its writes for the Lease.
func (s *shared) elect(mgr ctrl.Manager) error {
	options := client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()}
	own, err := client.New(mgr.GetConfig(), options)
	if err != nil {
		return fmt.Errorf("make client of the election: %w", err)
	}
	// kubectl limpet version reads the version from the identity.
	elector := leader.New(leader.Options{
		Client: own, Lease: client.ObjectKey{Namespace: s.options.Namespace, Name: leaseName},
		Identity: s.options.Host + "_" + version.Release() + "_" + string(uuid.NewUUID()), Clock: s.clock, Events: s.events, Registry: metrics.Registry,
	})
	if err := mgr.Add(elector); err != nil {
		return fmt.Errorf("add election: %w", err)
	}
	s.mgr, s.lead = leader.Manager(mgr, elector), elector.Wait
	options.HTTPClient = leader.HTTPClient(options.HTTPClient, elector.Wait)
	options.Cache = &client.CacheOptions{Reader: mgr.GetCache()}
	s.leading, err = client.New(mgr.GetConfig(), options)
	if err != nil {
		return fmt.Errorf("make client of the leader: %w", err)
	}
	return nil
}
