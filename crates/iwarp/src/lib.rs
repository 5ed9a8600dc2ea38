//! A software RNIC: MPA, DDP and RDMAP over TCP
