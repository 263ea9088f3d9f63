package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	migrationPage  = 200         // objects that are read at a time
	migrationRetry = time.Minute // until the next attempt after an incomplete one
)

// Migrator rewrites all objects of its CRDs in the version that is stored now. An object
// that an older installation stored can only be read while the conversion webhook answers;
// garbage collection and namespace deletion read it too.
type Migrator struct {
	Client client.Client
	// Live reads past the cache.
	Live  client.Reader
	CRDs  []CRD
	Clock clock.Clock
	// ReadOnly tells that CRDs may not be written. An administrator then writes the stored
	// versions; until then each new leader rewrites all objects.
	ReadOnly bool
}

// SetupWithManager runs the migrator once on every new leader.
func (m *Migrator) SetupWithManager(mgr ctrl.Manager) error { return mgr.Add(m) }

// Start migrates, and returns when every object is migrated.
func (m *Migrator) Start(ctx context.Context) error {
	for {
		var errs []error
		for _, crd := range m.CRDs {
			errs = append(errs, m.migrate(ctx, crd))
		}
		err := errors.Join(errs...)
		if err == nil || ctx.Err() != nil {
			return nil //nolint:nilerr // being stopped is no failure
		}
		log.FromContext(ctx).Error(err, "Some objects are still stored in a former version")
		select {
		case <-m.Clock.After(migrationRetry):
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *Migrator) migrate(ctx context.Context, of CRD) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := m.Live.Get(ctx, client.ObjectKey{Name: of.Name}, &crd); err != nil {
		return fmt.Errorf("get CRD %s: %w", of.Name, err)
	}
	current := []string{of.Stored.Version}
	if slices.Equal(crd.Status.StoredVersions, current) {
		return nil
	}
	if err := m.rewriteAll(ctx, of); err != nil {
		return err
	}
	if m.ReadOnly {
		log.FromContext(ctx).Info("Migrated objects of a former version; remedy: write the stored versions of the CRD by hand",
			"crd", of.Name, "now", crd.Status.StoredVersions, "want", current)
		return nil
	}
	before := crd.DeepCopy()
	crd.Status.StoredVersions = current
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := m.Client.Status().Patch(ctx, &crd, patch); err != nil {
		return fmt.Errorf("write stored versions of CRD %s: %w", of.Name, err)
	}
	log.FromContext(ctx).Info("Migrated objects of a former version", "crd", of.Name, "before", before.Status.StoredVersions)
	return nil
}

// rewriteAll rewrites every object of a CRD. An object that cannot be rewritten does not
// keep the others from it.
func (m *Migrator) rewriteAll(ctx context.Context, of CRD) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(of.Stored.GroupVersion().WithKind(of.Stored.Kind + "List"))
	var errs []error
	for more := true; more; more = list.GetContinue() != "" {
		if err := m.readPage(ctx, list, list.GetContinue()); err != nil {
			return fmt.Errorf("list %s: %w", of.Stored.Kind, err)
		}
		for i := range list.Items {
			errs = append(errs, m.rewrite(ctx, &list.Items[i]))
		}
	}
	return errors.Join(errs...)
}

// readPage reads the next page. The API server forgets within minutes what the list was when it began, sooner than 30 000
// objects are rewritten. Its answer then holds a token that goes on with the list of now; what is new there is stored as it should be.
func (m *Migrator) readPage(ctx context.Context, list client.ObjectList, token string) error {
	err := m.Live.List(ctx, list, client.Limit(migrationPage), client.Continue(token))
	if expired := apierrors.APIStatus(nil); apierrors.IsResourceExpired(err) && errors.As(err, &expired) && expired.Status().Continue != "" {
		return m.Live.List(ctx, list, client.Limit(migrationPage), client.Continue(expired.Status().Continue))
	}
	return err
}

// rewrite stores an object without a change. After a conflict nothing is left to do: the
// other writer has stored the object too.
func (m *Migrator) rewrite(ctx context.Context, o *unstructured.Unstructured) error {
	err := m.Client.Update(ctx, o)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("rewrite %s %s: %w", o.GetKind(), client.ObjectKeyFromObject(o), err)
}
