package plan_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// lent returns a loan of a pod from n1, with one address or more.
func lent(pod, ips, borrower string, change ...func(*v1alpha1.BorrowedAddress)) *v1alpha1.BorrowedAddress {
	o := &v1alpha1.BorrowedAddress{
		Spec:   v1alpha1.BorrowedAddressSpec{Pod: pod, Interface: "eth0", Network: plan.NetworkName, IPs: ips},
		Status: v1alpha1.BorrowedAddressStatus{Home: "n1", Borrower: borrower, Phase: "Lent", Epoch: 1},
	}
	o.Namespace, o.Name = "default", o.Spec.ObjectName()
	for _, c := range change {
		c(o)
	}
	return o
}

func in(phase loan.Phase) func(*v1alpha1.BorrowedAddress) {
	return func(o *v1alpha1.BorrowedAddress) { o.Status.Phase = v1alpha1.LoanPhase(phase) }
}

func ownerOf(pod string) reservation.Owner {
	return reservation.Owner{Network: plan.NetworkName, Namespace: "default", Pod: pod, IfName: "eth0"}
}

// TestLoanCases asks a node with the range 10.9.1.0/24 which owners concern it.
func TestLoanCases(t *testing.T) {
	kept := func(pod, ip string, change func(*reservation.Reservation)) reservation.Reservation {
		r := reservation.Reservation{Owner: ownerOf(pod), Addresses: []netip.Addr{netip.MustParseAddr(ip)}, Mode: reservation.Follow, BootID: "boot"}
		change(&r)
		return r
	}
	runs := func(pod, ip string, change func(*reservation.Attachment)) reservation.Attachment {
		a := reservation.Attachment{Owner: ownerOf(pod), Addresses: []netip.Addr{netip.MustParseAddr(ip)}, Mode: reservation.Follow, Since: now}
		change(&a)
		return a
	}
	for name, tc := range map[string]struct {
		loans        []*v1alpha1.BorrowedAddress
		reservations []reservation.Reservation
		attachments  []reservation.Attachment
		want         string
	}{
		"nothing":                    {want: "[]"},
		"home":                       {loans: []*v1alpha1.BorrowedAddress{lent("a", "10.9.1.7", "n2")}, want: "[a loan 10.9.1.7]"},
		"borrower":                   {loans: []*v1alpha1.BorrowedAddress{lent("a", "10.9.7.7", "n1", func(o *v1alpha1.BorrowedAddress) { o.Status.Home = "n7" })}, want: "[a loan 10.9.7.7]"},
		"the range came":             {loans: []*v1alpha1.BorrowedAddress{lent("a", "10.9.1.7", "n2", func(o *v1alpha1.BorrowedAddress) { o.Status.Home = "n7" })}, want: "[a loan 10.9.1.7]"},
		"other nodes":                {loans: []*v1alpha1.BorrowedAddress{lent("a", "10.9.7.7", "n2", func(o *v1alpha1.BorrowedAddress) { o.Status.Home = "n7" })}, want: "[]"},
		"another network":            {loans: []*v1alpha1.BorrowedAddress{lent("a", "10.9.1.7", "n2", func(o *v1alpha1.BorrowedAddress) { o.Spec.Network = "macvlan"; o.Name = o.Spec.ObjectName() })}, want: "[]"},
		"a loan of another name":     {loans: []*v1alpha1.BorrowedAddress{lent("a", "10.9.1.7", "n2", func(o *v1alpha1.BorrowedAddress) { o.Name = "mine" })}, want: "[]"},
		"no address":                 {loans: []*v1alpha1.BorrowedAddress{lent("a", "10.9.1.7,x", "n2")}, want: "[]"},
		"a zone":                     {loans: []*v1alpha1.BorrowedAddress{lent("a", "fe80::1%eth0", "n2")}, want: "[]"},
		"a reservation of this node": {reservations: []reservation.Reservation{kept("a", "10.9.1.7", func(*reservation.Reservation) {})}, want: "[]"},
		"it was made before the boot": {
			reservations: []reservation.Reservation{kept("a", "10.9.1.7", func(r *reservation.Reservation) { r.BootID = "earlier" })}, want: "[a 10.9.1.7]",
		},
		"it was made before the boot, for a pod that did not follow": {
			reservations: []reservation.Reservation{kept("a", "10.9.1.7", func(r *reservation.Reservation) { r.BootID, r.Mode = "earlier", reservation.Preferred })}, want: "[]",
		},
		"the same, and an ADD waits": {
			reservations: []reservation.Reservation{kept("asks", "10.9.1.7", func(r *reservation.Reservation) { r.BootID, r.Mode = "earlier", reservation.Preferred })}, want: "[asks 10.9.1.7]",
		},
		"lent":  {reservations: []reservation.Reservation{kept("a", "10.9.1.7", func(r *reservation.Reservation) { r.Lent = 3 })}, want: "[a 10.9.1.7]"},
		"guest": {reservations: []reservation.Reservation{kept("a", "10.9.7.7", func(r *reservation.Reservation) { r.Guest = 3 })}, want: "[a 10.9.7.7]"},
		"a guest that runs, whose annotation is gone": {
			attachments: []reservation.Attachment{runs("a", "10.9.7.7", func(a *reservation.Attachment) { a.Guest, a.Mode = 3, reservation.Preferred })}, want: "[a 10.9.7.7]",
		},
		"a pod that runs": {attachments: []reservation.Attachment{runs("a", "10.9.1.7", func(*reservation.Attachment) {})}, want: "[]"},
		"a pod that ran before the boot": {
			attachments: []reservation.Attachment{runs("a", "10.9.1.7", func(a *reservation.Attachment) { a.Since.BootID = "earlier" })}, want: "[a 10.9.1.7]",
		},
		"loan and record": {
			loans:        []*v1alpha1.BorrowedAddress{lent("a", "10.9.7.7", "n2", func(o *v1alpha1.BorrowedAddress) { o.Status.Home = "n7" })},
			reservations: []reservation.Reservation{kept("a", "10.9.7.7", func(r *reservation.Reservation) { r.Guest = 3 })}, want: "[a loan 10.9.7.7]",
		},
		"loan and record of other addresses": {
			loans:        []*v1alpha1.BorrowedAddress{lent("a", "10.9.7.7", "n2", func(o *v1alpha1.BorrowedAddress) { o.Status.Home = "n7" })},
			reservations: []reservation.Reservation{kept("a", "10.9.1.7", func(r *reservation.Reservation) { r.Lent = 3 })}, want: "[a 10.9.1.7 a loan 10.9.7.7]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range plan.LoanCases(plan.LoansInput{
				Node: "n1", Network: plan.NetworkName, Owns: []netip.Prefix{netip.MustParsePrefix("10.9.1.0/24")}, Loans: tc.loans, BootID: "boot",
				State: plan.Network{Reservations: tc.reservations, Attachments: tc.attachments},
				Waits: func(o reservation.Owner) bool { return o.Pod == "asks" },
			}) {
				text := c.Owner.Pod
				if c.Object != nil {
					text += " loan"
				}
				got = append(got, text+" "+strings.Trim(fmt.Sprint(c.Addresses), "[]"))
			}
			if slices.Sort(got); fmt.Sprint(got) != tc.want {
				t.Errorf("got %v, want %s", got, tc.want)
			}
		})
	}
}

// TestHasPod asks lists of pods for that of an owner, whom the controller lets this node borrow.
func TestHasPod(t *testing.T) {
	at := metav1.NewTime(now.Wall)
	owner := "apps/Deployment/web/3"
	pods := []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "here"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ends", DeletionTimestamp: &at}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "else"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-x-y", Annotations: map[string]string{reservation.OwnerAnnotation: owner}}},
	}
	api, runtime := plan.HasPod("n1", plan.PodList{Items: pods}), plan.HasPod("n1", plan.PodList{Items: pods, FromCreation: true})
	for name, tc := range map[string]struct {
		pod         string
		change      func(*v1alpha1.BorrowedAddress)
		api, byTold bool
	}{
		"here":                              {pod: "here", api: true, byTold: true},
		"its owner":                         {pod: owner, api: true, byTold: true},
		"it ends, and its sandbox is known": {pod: "ends", byTold: true},
		"of another namespace":              {pod: "else", byTold: true},
		"another node borrows":              {pod: "none", change: func(o *v1alpha1.BorrowedAddress) { o.Status.Borrower = "n2" }},
		"it shall give back":                {pod: "none", change: func(o *v1alpha1.BorrowedAddress) { o.Status.GiveBack = true }},
		"the loan is ending":                {pod: "none", change: in(loan.Ending)},
	} {
		o := lent(tc.pod, "10.9.7.7", "n1")
		if tc.change != nil {
			tc.change(o)
		}
		c := plan.LoanCase{Owner: ownerOf(tc.pod), Object: o}
		if got := api(c); got != tc.api {
			t.Errorf("%s, by the API server or the kubelet: %t", name, got)
		}
		if got := runtime(c); got != tc.byTold {
			t.Errorf("%s, by the runtime: %t", name, got)
		}
	}
	if runtime(plan.LoanCase{Owner: ownerOf("none")}) {
		t.Error("a pod without a loan is there")
	}
}

// TestNewsOfTheControllerWaitForThePod looks at steps of a borrower without a pod.
func TestNewsOfTheControllerWaitForThePod(t *testing.T) {
	named := loan.Loan{Home: "n2", Borrower: "n1", Phase: loan.Lent, Epoch: 2}
	recalled, ending := named, named
	recalled.GiveBack, ending.Phase = true, loan.Ending
	for name, tc := range map[string]struct {
		in   loan.NodeInput
		want bool
	}{
		"named":                     {loan.NodeInput{Loan: &named, Record: loan.Record{Confirmed: true}}, true},
		"named, and the pod came":   {loan.NodeInput{Loan: &named, Live: true, Bound: true, Record: loan.Record{Confirmed: true}}, false},
		"asked to give back":        {loan.NodeInput{Loan: &recalled, Record: loan.Record{Confirmed: true}}, false},
		"the loan is ending":        {loan.NodeInput{Loan: &ending, Record: loan.Record{Confirmed: true}}, false},
		"a guest that is recalled":  {loan.NodeInput{Loan: &recalled, Live: true, Record: loan.Record{Guest: 2, Confirmed: true}}, false},
		"home whose pod came back":  {loan.NodeInput{Owns: true, Bound: true, Loan: &loan.Loan{Home: "n1", Phase: loan.Lent, Epoch: 3}, Record: loan.Record{Lent: 3, Confirmed: true}}, false},
		"home that lost its loan":   {loan.NodeInput{Owns: true, Record: loan.Record{Lent: 3, Confirmed: true}}, false},
		"a borrower without a loan": {loan.NodeInput{Record: loan.Record{Confirmed: true}}, false},
	} {
		tc.in.Node = "n1"
		if s := loan.PlanNode(tc.in); plan.Untaken(tc.in, s) != tc.want {
			t.Errorf("%s: step %+v waits: %t", name, s, !tc.want)
		}
	}
}

// TestShowLoan writes a new loan, and then changes it.
func TestShowLoan(t *testing.T) {
	first, second := metav1.NewTime(now.Wall), metav1.NewTime(now.Wall.Add(time.Minute))
	c := plan.LoanCase{Owner: ownerOf("a"), Addresses: []netip.Addr{netip.MustParseAddr("10.9.1.7"), netip.MustParseAddr("fd09:1::7")}}
	l := loan.Loan{Home: "n1", Borrower: loan.Unknown, Phase: loan.Lent, Epoch: 4}
	o := plan.ShowLoan(c, l, first)
	want := lent("a", "10.9.1.7,fd09:1::7", "?", func(o *v1alpha1.BorrowedAddress) { o.Status.Epoch, o.Status.Since = 4, &first })
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("a new loan (-want +got):\n%s", diff)
	}
	c.Object, l.GiveBack, l.Free = o, true, true
	o = plan.ShowLoan(c, l, second)
	if !o.Status.Since.Equal(&first) || !o.Status.GiveBack || !o.Status.Free || c.Object.Status.GiveBack {
		t.Errorf("asked to give back: %+v, before %+v", o.Status, c.Object.Status)
	}
	l.Borrower = ""
	if o = plan.ShowLoan(c, l, second); !o.Status.Since.Equal(&second) {
		t.Errorf("given back: %+v", o.Status)
	}
	if got := plan.LoanOf(o); *got != l {
		t.Errorf("read %+v, want %+v", *got, l)
	}
}
