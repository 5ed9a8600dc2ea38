use super::*;
use gannet_wire::rdmap::EXCEPTIONS_OFFER;

fn options(ird: u16, ord: u16) -> ConnectOptions {
    ConnectOptions {
        ird,
        ord,
        ..ConnectOptions::default()
    }
}

fn without_crc() -> IwarpConfig {
    IwarpConfig {
        crc: false,
        ..IwarpConfig::default()
    }
}

/// Both ends' agreements.
fn negotiate(
    initiator: &IwarpConfig,
    initiator_options: ConnectOptions,
    responder: &IwarpConfig,
    responder_options: ConnectOptions,
) -> (Agreement, Agreement) {
    let request = request(initiator, &initiator_options, &[]);
    check_request(&request).unwrap();
    let (reply, theirs) = accept(responder, &request, &responder_options, &[]).unwrap();
    let ours = conclude(initiator, &initiator_options, &reply).unwrap();
    (ours, theirs)
}

#[test]
fn depths_cross_over() {
    let config = IwarpConfig::default();
    let (near, far) = negotiate(&config, options(16, 4), &config, options(2, 100));
    assert_eq!((near.ird, near.ord), (16, 4));
    assert_eq!((far.ird, far.ord), (4, 16));
    assert_eq!((near.ready, near.crc), (ReadyToReceive::Ordinary, true));
}

#[test]
fn depths_stay_below_what_siw_can_bear() {
    let config = IwarpConfig::default();
    let (near, far) = negotiate(&config, options(500, 500), &config, options(500, 500));
    assert_eq!((near.ird, near.ord, far.ird, far.ord), (128, 128, 128, 128));
}

#[test]
fn crcs_are_on_when_either_side_asks() {
    let (with, without) = (IwarpConfig::default(), without_crc());
    let crcs = |near: &IwarpConfig, far: &IwarpConfig| {
        let (near, far) = negotiate(near, options(0, 0), far, options(0, 0));
        assert_eq!(near.crc, far.crc);
        near.crc
    };
    assert!(crcs(&with, &without) && crcs(&without, &with) && crcs(&with, &with));
    assert!(!crcs(&without, &without));
}

#[test]
fn revision_one_has_no_depths_to_negotiate() {
    let old = IwarpConfig {
        revision: Revision::ONE,
        ..IwarpConfig::default()
    };
    let (near, far) = negotiate(&old, options(3, 5), &IwarpConfig::default(), options(7, 9));
    assert_eq!((near.ird, near.ord, far.ird, far.ord), (3, 5, 7, 9));
}

#[test]
fn other_revisions_are_not_answered() {
    let config = IwarpConfig::default();
    let options = options(0, 0);
    for revision in [0, 3, 255] {
        let request = StartupFrame {
            revision: Revision(revision),
            ..request(&config, &options, &[])
        };
        assert!(check_request(&request).is_err());
    }
    let answer = request(&config, &options, &[]);
    let reply = StartupFrame {
        kind: FrameKind::Reply,
        revision: Revision::ONE,
        ..answer
    };
    assert!(matches!(
        conclude(&config, &options, &reply),
        Err(Refusal::Incompatible(_))
    ));
    let reply = StartupFrame {
        kind: FrameKind::Reply,
        enhanced: None,
        ..answer
    };
    assert!(matches!(
        conclude(&config, &options, &reply),
        Err(Refusal::Incompatible(_))
    ));
    let reply = StartupFrame {
        kind: FrameKind::Reply,
        rejected: true,
        ..answer
    };
    assert_eq!(conclude(&config, &options, &reply), Err(Refusal::Rejected));
}

#[test]
fn peer_to_peer_agrees_on_how_to_open() {
    let p2p = IwarpConfig {
        peer_to_peer: true,
        ..IwarpConfig::default()
    };
    let plain = IwarpConfig::default();
    let (near, far) = negotiate(&p2p, options(1, 1), &plain, options(1, 1));
    assert_eq!(
        (near.ready, far.ready),
        (ReadyToReceive::Write, ReadyToReceive::Write)
    );

    let (wanted, granted) = (options(1, 1), options(1, 1));
    let offer = |send_rtr, write_rtr, read_rtr| {
        let mut frame = request(&p2p, &wanted, &[]);
        let depths = Enhanced::client_server(1, 1);
        frame.enhanced = Some(Enhanced {
            peer_to_peer: true,
            send_rtr,
            write_rtr,
            read_rtr,
            ..depths
        });
        accept(&plain, &frame, &granted, &[]).map(|(reply, agreed)| (reply.enhanced, agreed.ready))
    };
    let (reply, ready) = offer(false, false, true).unwrap();
    assert_eq!(ready, ReadyToReceive::Read);
    assert!(reply.is_some_and(|reply| reply.peer_to_peer && reply.read_rtr && !reply.write_rtr));
    assert_eq!(offer(true, false, false).unwrap().1, ReadyToReceive::Send);
    let no_match = Refusal::Terminate(TerminateCode::MPA_NO_MATCHING_RTR);
    assert_eq!(offer(false, false, false), Err(no_match));
}

#[test]
fn a_reply_that_the_initiator_cannot_honour_ends_with_a_terminate() {
    let config = IwarpConfig {
        peer_to_peer: true,
        ..IwarpConfig::default()
    };
    let options = options(16, 16);
    let asked = request(&config, &options, &[]);
    let reply = |block| {
        let reply = StartupFrame {
            kind: FrameKind::Reply,
            enhanced: Some(block),
            ..asked
        };
        conclude(&config, &options, &reply).map(|agreed| (agreed.ird, agreed.ord, agreed.ready))
    };
    let too_deep = Refusal::Terminate(TerminateCode::MPA_INSUFFICIENT_IRD);
    assert_eq!(reply(Enhanced::client_server(16, 200)), Err(too_deep));
    let no_match = Refusal::Terminate(TerminateCode::MPA_NO_MATCHING_RTR);
    assert_eq!(reply(Enhanced::client_server(16, 16)), Err(no_match));
    let open = Enhanced {
        peer_to_peer: true,
        read_rtr: true,
        ..Enhanced::client_server(NOT_NEGOTIATED, NOT_NEGOTIATED)
    };
    assert_eq!(reply(open), Ok((16, 16, ReadyToReceive::Read)));
}

#[test]
fn depths_left_open_are_answered_open() {
    let config = IwarpConfig::default();
    let wanted = options(8, 8);
    let mut frame = request(&config, &wanted, &[]);
    frame.enhanced = Some(Enhanced::client_server(NOT_NEGOTIATED, NOT_NEGOTIATED));
    let (reply, agreed) = accept(&config, &frame, &wanted, &[]).unwrap();
    let block = reply.enhanced.unwrap();
    assert_eq!((block.ird, block.ord), (NOT_NEGOTIATED, NOT_NEGOTIATED));
    assert_eq!((agreed.ird, agreed.ord), (8, 8));
}

#[test]
fn markers_go_only_to_the_end_that_asked_for_them() {
    let config = IwarpConfig::default();
    let wanted = options(0, 0);
    let asked = StartupFrame {
        markers: true,
        ..request(&config, &wanted, &[])
    };
    let (reply, agreed) = accept(&config, &asked, &wanted, &[]).unwrap();
    assert!(agreed.markers && !reply.markers);
    assert!(!reject(&asked, b"").markers);
}

#[test]
fn exceptions_are_agreed_when_both_ends_offer_them() {
    let config = IwarpConfig::default();
    let options = |exceptions| ConnectOptions {
        exceptions,
        ..options(4, 4)
    };
    let offer = |asks| {
        if asks {
            &EXCEPTIONS_OFFER[..]
        } else {
            b"gannet\x01\x00"
        }
    };
    for (near_asks, far_asks) in [(false, false), (false, true), (true, false), (true, true)] {
        let asked = request(&config, &options(near_asks), offer(near_asks));
        assert_eq!(split_exceptions_offer(asked.private_data).0, near_asks);
        // A responder asks for exceptions only if the initiator offers them.
        let far = options(near_asks && far_asks);
        let (reply, theirs) = accept(&config, &asked, &far, offer(far.exceptions)).unwrap();
        let ours = conclude(&config, &options(near_asks), &reply).unwrap();
        let agreed = near_asks && far_asks;
        assert_eq!((ours.exceptions, theirs.exceptions), (agreed, agreed));
        // An offer in reply to a request without one is ignored.
        let unasked = StartupFrame {
            private_data: &EXCEPTIONS_OFFER,
            ..reply
        };
        let ours = conclude(&config, &options(false), &unasked).unwrap();
        assert!(!ours.exceptions);
    }
}
