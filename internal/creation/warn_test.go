package creation_test

import (
	"testing"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestABadAnnotationOfAPodIsAnsweredWithAWarning(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	c, heard := env.Listen(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	cases := map[string]struct {
		pod        testenv.Pod
		annotation string
	}{
		"of a StatefulSet":                   {testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).With(retainAnnotation, "-1"), retainAnnotation},
		"without an owner":                   {testenv.APod("alone").In(ns).With(retainAnnotation, "1441"), retainAnnotation},
		"whose claim cannot be read":         {testenv.APod("vm").In(ns).With(reservation.NetworkSelections[0], `{"ipam-claim-reference":"vm.blue"}`), reservation.NetworkSelections[0]},
		"that says how but not for how long": {testenv.APod("how").In(ns).With(reservation.ModeAnnotation, "always"), reservation.ModeAnnotation},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := c.Create(t.Context(), tc.pod.Pod); err != nil {
				t.Fatal(err)
			}
			env.RemoveAtEnd(t, tc.pod.Pod)
			if err := heard.Names(tc.annotation); err != nil {
				t.Error(err)
			}
		})
	}
}
