package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

const (
	systemNamespace = "limpet-system"
	peerAccount     = "limpet-peer"  // in the cluster that is read, with its role, its binding and its token
	peersSecret     = "limpet-peers" // in the cluster that reads
	peersKey        = "kubeconfig"   // of that Secret
)

// tokenWithin is how long the other cluster may take to make a token.
const tokenWithin = 30 * time.Second

// Peer is another cluster whose budgets a controller reads.
type Peer struct {
	// Name by which budgets name the cluster.
	Name string
	// There is the cluster, with the right to make roles.
	There client.Client
	// Server is the URL of its API server for the controller, and Authority signed its certificate.
	Server    string
	Authority []byte
	// Plain lets the account read PodDisruptionBudgets, too.
	Plain bool
}

// Join makes an account in a peer that may read budgets alone, or gives an account that was made the present rights, and gives its token to the controller of a cluster.
func Join(ctx context.Context, here client.Client, p Peer) error {
	for _, o := range p.objects() {
		err := p.There.Create(ctx, o)
		if role, again := o.(*rbacv1.ClusterRole); again && apierrors.IsAlreadyExists(err) {
			err = p.There.Update(ctx, role)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make %T %s in cluster %s: %w", o, o.GetName(), p.Name, err)
		}
	}
	var token corev1.Secret
	err := wait.PollUntilContextTimeout(ctx, time.Second/4, tokenWithin, true, func(ctx context.Context) (bool, error) {
		err := p.There.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: peerAccount}, &token)
		return len(token.Data[corev1.ServiceAccountTokenKey]) > 0, err
	})
	if err != nil {
		return fmt.Errorf("wait for the token in Secret %s/%s of cluster %s: %w", systemNamespace, peerAccount, p.Name, err)
	}
	return changePeers(ctx, here, func(c *clientcmdapi.Config) error {
		c.Clusters[p.Name] = &clientcmdapi.Cluster{Server: p.Server, CertificateAuthorityData: p.Authority}
		c.AuthInfos[p.Name] = &clientcmdapi.AuthInfo{Token: string(token.Data[corev1.ServiceAccountTokenKey])}
		c.Contexts[p.Name] = &clientcmdapi.Context{Cluster: p.Name, AuthInfo: p.Name}
		return nil
	})
}

// objects are those of the account.
func (p Peer) objects() []client.Object {
	account := metav1.ObjectMeta{Namespace: systemNamespace, Name: peerAccount}
	token := &corev1.Secret{ObjectMeta: *account.DeepCopy(), Type: corev1.SecretTypeServiceAccountToken}
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: peerAccount}
	read := []string{"get", "list", "watch"}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{limpetv1alpha1.GroupVersion.Group}, Resources: []string{"distributedpoddisruptionbudgets"}, Verbs: read}}
	if p.Plain {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{policyv1.GroupName}, Resources: []string{"poddisruptionbudgets"}, Verbs: read})
	}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: account},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: peerAccount}, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: peerAccount},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: peerAccount},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: peerAccount}},
		},
		token,
	}
}

// ErrNoPeer is returned for a cluster that was not joined.
var ErrNoPeer = errors.New("is no context of Secret " + systemNamespace + "/" + peersSecret)

// Leave takes a cluster from those that the controller reads.
func Leave(ctx context.Context, here client.Client, name string) error {
	return changePeers(ctx, here, func(c *clientcmdapi.Config) error {
		if c.Contexts[name] == nil {
			return fmt.Errorf("cluster %s %w", name, ErrNoPeer)
		}
		delete(c.Contexts, name)
		delete(c.Clusters, name)
		delete(c.AuthInfos, name)
		return nil
	})
}

// DeclareGone takes a cluster out of all budgets of a cluster that name it, and returns them as they are then. Those that
// remain agree without it. A budget that cannot be changed keeps no other from it.
func DeclareGone(ctx context.Context, here client.Client, name string) (changed []limpetv1alpha1.DistributedPodDisruptionBudget, failed error) {
	var all limpetv1alpha1.DistributedPodDisruptionBudgetList
	if err := here.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("list DistributedPodDisruptionBudgets: %w", err)
	}
	for _, b := range all.Items {
		patch := withoutPeer(b, name)
		if patch == nil {
			continue
		}
		if err := here.Patch(ctx, &b, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			failed = errors.Join(failed, fmt.Errorf("take cluster %s out of DistributedPodDisruptionBudget %s/%s: %w", name, b.Namespace, b.Name, err))
			continue
		}
		changed = append(changed, b)
	}
	return changed, failed
}

// withoutPeer returns the patch that takes a cluster out of the peers of a budget; nil for none. It keeps fields that this
// version does not know, and fails if the peers have changed.
func withoutPeer(b limpetv1alpha1.DistributedPodDisruptionBudget, name string) []byte {
	var check, remove []string
	for i, p := range slices.Backward(b.Spec.Federation) { // the places of those that are left stay
		if p.Cluster == name {
			check = append(check, fmt.Sprintf(`{"op":"test","path":"/spec/federation/%d/cluster","value":%q}`, i, name))
			remove = append(remove, fmt.Sprintf(`{"op":"remove","path":"/spec/federation/%d"}`, i))
		}
	}
	switch len(remove) {
	case 0:
		return nil
	case len(b.Spec.Federation): // an empty list is no valid one, and partitionPolicy and child need one: the budget itself is left
		remove = []string{fmt.Sprintf(`{"op":"replace","path":"/spec/federation","value":[{"name":%q}]}`, b.Name)}
	}
	return []byte("[" + strings.Join(append(check, remove...), ",") + "]")
}

// changePeers changes the kubeconfig of the controller for peers.
func changePeers(ctx context.Context, here client.Client, change func(*clientcmdapi.Config) error) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: peersSecret}}
	missing := here.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if client.IgnoreNotFound(missing) != nil {
		return fmt.Errorf("read Secret %s/%s: %w", systemNamespace, peersSecret, missing)
	}
	config := clientcmdapi.NewConfig()
	if known := secret.Data[peersKey]; len(known) > 0 {
		var err error
		if config, err = clientcmd.Load(known); err != nil {
			return fmt.Errorf("read %s of Secret %s/%s: %w", peersKey, systemNamespace, peersSecret, err)
		}
	}
	if err := change(config); err != nil {
		return err
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("write %s of Secret %s/%s: %w", peersKey, systemNamespace, peersSecret, err)
	}
	secret.Data = map[string][]byte{peersKey: slices.Clone(text)}
	if missing != nil {
		err = here.Create(ctx, secret)
	} else {
		err = here.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", systemNamespace, peersSecret, err)
	}
	return nil
}
