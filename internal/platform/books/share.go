package books

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// ShareOf converts a share of a book, or of the status of a peer.
func ShareOf(s limpetv1alpha1.BudgetShare) ledger.Share {
	share := ledger.Share{
		Budget: s.Budget, UID: string(s.UID), Spec: s.Spec, Group: s.Group, Nonce: s.Nonce, Agreement: s.Agreement, Open: s.Open, Least: s.Least, Base: s.Base,
	}
	for _, p := range s.Units {
		share.Peers = append(share.Peers, ledger.PeerUnits(p))
	}
	return share
}

// ShownShare is the reverse of ShareOf.
func ShownShare(s ledger.Share) limpetv1alpha1.BudgetShare {
	shown := limpetv1alpha1.BudgetShare{
		Budget: s.Budget, UID: types.UID(s.UID), Spec: s.Spec, Group: s.Group, Nonce: s.Nonce, Agreement: s.Agreement, Open: s.Open, Least: s.Least, Base: s.Base,
	}
	for _, p := range s.Peers {
		shown.Units = append(shown.Units, limpetv1alpha1.PeerUnits(p))
	}
	return shown
}
