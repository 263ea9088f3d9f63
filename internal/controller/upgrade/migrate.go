package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

const (
	migrationPage  = 200         // PersistentPodStates that are read at a time
	migrationRetry = time.Minute // until the next attempt after one that was not complete
)

// Migrator has every PersistentPodState stored in the version that is stored now. What an
// older installation stored can only be read while the conversion webhook answers, and
// the cluster's own garbage collection and namespace deletion read it too.
type Migrator struct {
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// CRD is the name of PersistentPodState's.
	CRD   string
	Clock clock.Clock
}

// SetupWithManager lets the migrator run once on every new leader.
func (m *Migrator) SetupWithManager(mgr ctrl.Manager) error { return mgr.Add(m) }

// Start migrates, and returns when nothing is left to.
func (m *Migrator) Start(ctx context.Context) error {
	for {
		err := m.migrate(ctx)
		if err == nil || ctx.Err() != nil {
			return nil //nolint:nilerr // being stopped is no failure
		}
		log.FromContext(ctx).Error(err, "Some PersistentPodStates are still stored in a former version")
		select {
		case <-m.Clock.After(migrationRetry):
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *Migrator) migrate(ctx context.Context) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := m.Live.Get(ctx, client.ObjectKey{Name: m.CRD}, &crd); err != nil {
		return fmt.Errorf("get CRD %s: %w", m.CRD, err)
	}
	current := []string{appsv1beta1.GroupVersion.Version}
	if slices.Equal(crd.Status.StoredVersions, current) {
		return nil
	}
	var list appsv1beta1.PersistentPodStateList
	var errs []error
	for more := true; more; more = list.Continue != "" {
		if err := m.Live.List(ctx, &list, client.Limit(migrationPage), client.Continue(list.Continue)); err != nil {
			return fmt.Errorf("list PersistentPodStates: %w", err)
		}
		for i := range list.Items {
			errs = append(errs, m.rewrite(ctx, &list.Items[i]))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	before := crd.DeepCopy()
	crd.Status.StoredVersions = current
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := m.Client.Status().Patch(ctx, &crd, patch); err != nil {
		return fmt.Errorf("note stored versions in CRD %s: %w", m.CRD, err)
	}
	log.FromContext(ctx).Info("Migrated what was stored in a former version", "before", before.Status.StoredVersions)
	return nil
}

// rewrite stores an object as it is. Somebody who changed it meanwhile has stored it too.
func (m *Migrator) rewrite(ctx context.Context, s *appsv1beta1.PersistentPodState) error {
	err := m.Client.Update(ctx, s)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("rewrite PersistentPodState %s: %w", client.ObjectKeyFromObject(s), err)
}
